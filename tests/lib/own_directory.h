/* SPDX-License-Identifier: MIT */
/*
 * Group setup and teardown: a directory (registry/directory.h) of the test's own that nobody else
 * uses.
 */
#ifndef AV_TESTS_OWN_DIRECTORY_H
#define AV_TESTS_OWN_DIRECTORY_H

#include <stdlib.h>

#include "registry/directory.h"

static char own_directory[] = "/dev/shm/anyverbs-test-XXXXXX";

static inline int own_directory_join(void **state)
{
	return !mkdtemp(own_directory) || setenv("ANYVERBS_DIR", own_directory, 1) ||
	       av_dir_join(NULL);
}

/* After a failure, the folder stays for its flight record. */
static inline int own_directory_leave(void **state)
{
	av_dir_leave();
	return 0;
}

#endif
