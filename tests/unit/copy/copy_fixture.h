/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the copy routine (test_copy*.c) share: patterns, memory that ends, and children
 * in which a handler may be put in place, each with a history of its own.
 */
#ifndef AV_TESTS_COPY_FIXTURE_H
#define AV_TESTS_COPY_FIXTURE_H

#include <stdio.h>
#include <unistd.h>

#include "lib/check.h"
#include "lib/unit.h"

#define PATTERN(i) ((unsigned char)((i)*7 + 13 + ((i) >> 8)))

extern size_t page; /* bytes */

void fill(unsigned char *p, size_t len); /* with PATTERN */
unsigned char *map_pages(size_t count);	 /* zero; ends the program if there are none */

/* What follows a stretch of good memory. */
enum edge { EDGE_NONE, EDGE_UNMAPPED, EDGE_END_OF_FILE, EDGE_READ_ONLY, EDGE_N };

/*
 * The first bad address: the two pages before it can be read and written, the one behind it is as
 * @edge says.
 */
unsigned char *make_edge(enum edge edge);
void drop_edge(unsigned char *edge);

/* --- children -------------------------------------------------------------------- */

/* Fork, and call @body. Return: the wait status, that of a child which exits with 0 after it */
int run_child(void (*body)(void));
void child_succeeds(void (*body)(void));
void child_dies_of(void (*body)(void), int sig);

/* In a child: SIGSEGV and SIGBUS get this handler. */
void set_both(void (*handler)(int));
/* av_copy_init(), after which copies are guarded. */
void init_guard(void);
/* Longer than a thread may believe what it knows of its handlers, whatever the kernel's tick. */
void wait_for_next_check(void);
/* Copies and atomics that must find out that memory is missing. */
void copy_faults(void);

#endif
