/* SPDX-License-Identifier: MIT */
/*
 * Does this thread want the files that are really there? The virtual files (preload/vsysfs.h) are
 * answered to everybody else. For asking the system's own library for its devices, which would
 * otherwise find ours and complain that no driver knows them.
 */
#ifndef AV_BASE_REAL_FILES_H
#define AV_BASE_REAL_FILES_H

#include <stdbool.h>

/* From here on the calling thread sees no virtual file, until the end. May be nested. */
void av_real_files_begin(void);
void av_real_files_end(void);

/* Is the calling thread in between? */
bool av_real_files_only(void);

#endif
