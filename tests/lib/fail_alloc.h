/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail on demand. A test that links this has its own malloc(), calloc(),
 * realloc(), mmap(), mprotect(), posix_fallocate(), pthread_create() and syscall() (SYS_mmap and
 * SYS_mremap), which go before everybody's: those of the library under test, too, and of the
 * libraries it uses. Calls of other threads than the one that asked for failures are never
 * disturbed.
 */
#ifndef TEST_FAIL_ALLOC_H
#define TEST_FAIL_ALLOC_H

#include <stdbool.h>

enum fail_alloc {
	FAIL_ONCE,    /* that allocation alone */
	FAIL_ONWARDS, /* and all that follow */
};

/* The @nth allocation of the calling thread from now on fails; 1 is the next. */
void fail_alloc_begin(enum fail_alloc how, unsigned int nth);

/* All succeed again. Return: has any failed? */
bool fail_alloc_end(void);

#endif
