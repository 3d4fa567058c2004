/* SPDX-License-Identifier: MIT */
/*
 * Group setup and teardown: a directory (registry/directory.h) of the test's own that nobody else
 * uses. Nothing of it stays.
 */
#ifndef AV_TESTS_OWN_DIRECTORY_H
#define AV_TESTS_OWN_DIRECTORY_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "registry/directory.h"

static char own_directory[] = "/dev/shm/anyverbs-test-XXXXXX";

static inline int own_directory_join(void **state)
{
	return !mkdtemp(own_directory) || setenv("ANYVERBS_DIR", own_directory, 1) ||
	       av_dir_join(NULL);
}

static inline int own_directory_remove(const char *path, const struct stat *st, int type,
				       struct FTW *ftw)
{
	return remove(path);
}

static inline int own_directory_leave(void **state)
{
	av_dir_leave();
	return nftw(own_directory, own_directory_remove, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
