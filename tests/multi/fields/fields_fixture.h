/* SPDX-License-Identifier: MIT */
/*
 * Garbage in the fields of a structure that a verb is said not to look at. fields.txt has a row for
 * every field of every structure; coverage.py compares it with the header and with these tests.
 */
#ifndef TEST_FIELDS_FIXTURE_H
#define TEST_FIELDS_FIXTURE_H

#include <stddef.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/side.h"

#define PATIENCE 30000u /* ms for a completion */

struct garbage {
	const char *name;
	size_t at, bytes;
};

/* A field of @type, which lies @base bytes behind the beginning of what is passed. */
#define GARBAGE_IN(base, type, member)                                     \
	{                                                                  \
#type "." #member, (base) + offsetof(struct type, member), \
			sizeof(((struct type *)0)->member)                 \
	}
#define GARBAGE(type, member) GARBAGE_IN(0, type, member)

extern struct side here; /* in this process */
extern struct node *n;	 /* its node */

void spoil(void *what, const struct garbage *field);

/*
 * Call @use with a copy of the @bytes at @good as they are, then with garbage in each field, then
 * in all. It says by EXPECT() whether all was as ever. At most 1 KiB.
 */
void with_garbage(const void *good, size_t bytes, const struct garbage *fields, size_t count,
		  void (*use)(void *what));

int fields_test(int argc, char **argv, void (*run)(void));

#endif
