/* SPDX-License-Identifier: MIT */
/* Whether a thread sees the virtual files of src/preload. */
#ifndef AV_BASE_VIRTUAL_FILES_H
#define AV_BASE_VIRTUAL_FILES_H

#include <stdbool.h>

/**
 * av_virtual_files_suspend() - turn the virtual files off, or on again, for the calling thread
 *
 * Calls may be nested. For asking the system's own library for its devices, which would otherwise
 * find ours and complain that no driver knows them.
 */
void av_virtual_files_suspend(bool suspend);

bool av_virtual_files_off(void);

#endif
