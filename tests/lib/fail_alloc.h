/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail on demand. A test that links this has its own malloc(), calloc(),
 * realloc(), mmap(), mprotect(), posix_fallocate(), pthread_create() and syscall() (SYS_mmap and
 * SYS_mremap). They override those of everybody, including the library under test and the libraries
 * it uses. Only calls of the thread that asked for failures ever fail.
 */
#ifndef TEST_FAIL_ALLOC_H
#define TEST_FAIL_ALLOC_H

#include <stdbool.h>

enum fail_alloc {
	FAIL_ONCE,    /* only that allocation */
	FAIL_ONWARDS, /* that allocation and all later ones */
};

/* Make the @nth allocation of the calling thread fail, counted from now; 1 is the next. */
void fail_alloc_begin(enum fail_alloc how, unsigned int nth);

/* Stop failing. Return: true if any allocation failed. */
bool fail_alloc_end(void);

#endif
