/* SPDX-License-Identifier: MIT */
/*
 * A folder of its own for each run's shared files (ANYVERBS_DIR), so that runs do not meet each
 * other, and so that what a run leaves behind can be seen.
 */
#ifndef TEST_SANDBOX_H
#define TEST_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

/* Make it and point ANYVERBS_DIR to it; for all processes started from now on. */
void sandbox_enter(void);

/* Number of entries in it, folders of nothing but the flight recorder not counted. */
unsigned int sandbox_entries(void);

/* Bytes of memory that the files in it take. */
size_t sandbox_bytes(void);

/* Number of descriptors that this process has open. */
unsigned int open_descriptors(void);

/* Expect it to be empty but for the flight recorder, and remove it with all there is. Nobody may
 * use the device any more. */
void sandbox_leave(void);

#endif
