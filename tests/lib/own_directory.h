/* SPDX-License-Identifier: MIT */
/* A directory (registry/directory.h) of the test's own, in which nobody else runs: setup and
 * teardown of its group. */
#ifndef AV_TESTS_OWN_DIRECTORY_H
#define AV_TESTS_OWN_DIRECTORY_H

#include <stdlib.h>

#include "registry/directory.h"

static char own_directory[] = "/dev/shm/anyverbs-test-XXXXXX";

static inline int own_directory_join(void **state)
{
	return !mkdtemp(own_directory) || setenv("ANYVERBS_DIR", own_directory, 1) || av_dir_join(NULL);
}

/* Where something has failed, the folder stays for its record. */
static inline int own_directory_leave(void **state)
{
	av_dir_leave();
	return 0;
}

#endif
