/* SPDX-License-Identifier: MIT */
/*
 * Gives each run a folder of its own for shared files (ANYVERBS_DIR). Runs do not affect each
 * other, and what a run leaves behind shows.
 */
#ifndef TEST_SANDBOX_H
#define TEST_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Create the folder and point ANYVERBS_DIR to it, for all processes started from now on. */
void sandbox_enter(void);

/* Likewise, with a time limit. */
void sandbox_begin(unsigned int seconds);

/* Number of entries, without folders that hold only the flight recorder. */
unsigned int sandbox_entries(void);

/* Bytes of memory used by the folder's files. */
size_t sandbox_bytes(void);

/* Bytes of memory in the segments that a process has open, its own and others'. */
size_t segment_bytes(pid_t pid);

/* Number of open descriptors of this process. */
unsigned int open_descriptors(void);

/*
 * Expect the folder to be empty but for the flight recorder, and remove it. Nobody may use the
 * device any more.
 */
void sandbox_leave(void);

/* Likewise, at the end of main(). Return: its exit status */
int sandbox_end(void);

#endif
