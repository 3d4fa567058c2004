/* SPDX-License-Identifier: MIT */
/*
 * Does this thread want to see the real files? All others see the virtual files (preload/vsysfs.h).
 * Needed to ask the system's own library for its devices: it would find ours, and complain that no
 * driver knows them.
 */
#ifndef AV_BASE_REAL_FILES_H
#define AV_BASE_REAL_FILES_H

#include <stdbool.h>

/* Between these calls the calling thread sees no virtual file. Calls may be nested. */
void av_real_files_begin(void);
void av_real_files_end(void);

/* Is the calling thread between them? */
bool av_real_files_only(void);

#endif
