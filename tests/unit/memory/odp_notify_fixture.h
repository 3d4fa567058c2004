/* SPDX-License-Identifier: MIT */
/*
 * What the tests of invalidations (test_odp_notify_*.c) share: children with a context that is
 * watched, what its device does, and memory of every kind.
 *
 * Every case runs in a forked child of its own, as the user who runs the test and (if that is root)
 * as nobody, with an alarm: a program stuck in munmap() is what must not happen.
 */
#ifndef AV_TESTS_ODP_NOTIFY_FIXTURE_H
#define AV_TESTS_ODP_NOTIFY_FIXTURE_H

#include "fake_seg.h"
#include "lib/unit.h"
#include "memory/odp.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGES 16
#define PAGE  4096u

extern struct fake_seg f; /* the child's, watched */

/* Is there what the kernel needs for it? If not, says so: the test exits with 77 then. */
bool can_watch(void);

/* @fn(@arg) in a child that must not fail. */
void in_child(void (*fn)(const void *), const void *arg, bool as_nobody);
/* The same as this user and, from root, as nobody. */
void as_both(void (*fn)(const void *), const void *arg);
/* In a child: of a child of its own, the wait status. */
int wait_child(pid_t pid);
/* How many entries a directory has. */
int entries_of(const char *path);

/* --- what the device does -------------------------------------------------------- */

/* The device reads or writes. Return: were the bytes there? */
bool access_at(uint8_t *p, uint64_t len, bool write);
/* Is that page valid, once what was told of it has been heard? */
bool is_valid(const void *p);
/* Exactly the pages [first, last) of @p are not valid. */
void check_only_invalid(const uint8_t *p, int first, int last);

/* --- memory ---------------------------------------------------------------------- */

enum kind { PRIVATE, SHARED, MEMFD_SHARED, MEMFD_PRIVATE, FILE_SHARED, FILE_PRIVATE, KINDS };

/* PAGES pages between two that belong to nobody, so that mappings do not merge. */
uint8_t *map_kind(enum kind kind);

#endif
