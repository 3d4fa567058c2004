/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the shared heap (test_heap*.c) share: memory of this process that is born
 * shared, regions on it, and a peer that reaches them.
 */
#ifndef TEST_HEAP_FIXTURE_H
#define TEST_HEAP_FIXTURE_H

#include "lib/cancellable.h"
#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/probe.h"

#define PAGE	 4096ul
#define PAGES	 16ul
#define BYTES	 (PAGES * PAGE)
#define PATIENCE 30000u /* ms */

extern struct side a, b; /* the regions are a's, in this process */

/* The test: open both sides, and call @run; not without the heap. Return: exit status for main() */
int heap_test(int argc, char **argv, void (*run)(void));

/* Private memory, for the program; on the heap. */
uint8_t *map_private(size_t bytes);
void expect_shared(const void *p, bool shared); /* the page */

/* A region with all rights, that has to be possible. */
struct ibv_mr *reg(void *at, size_t bytes);
void dereg(struct ibv_mr *mr);

/* Bytes that differ from page to page. @same: how many from the first on are as filled */
void fill(uint8_t *p, size_t bytes, uint8_t seed);
size_t same(const uint8_t *p, size_t bytes, uint8_t seed);
void expect_filled(const uint8_t *p, size_t bytes, uint8_t seed);

/* What outlives_cancellation() calls: fork(), and mprotect() of the page at @p to executable. */
void call_fork(void *unused);
void call_mprotect(void *p);

/* Every kind of access by the other process to the region that begins there, and what it leaves. */
void expect_reached(uint8_t *p, const struct ibv_mr *mr);

/*
 * The program has unmapped @bytes at @p: READs of them are refused. Whoever reads waits until the
 * unmapping is known, but not for long: on a busy machine it may have the bytes once more. Return:
 * are they?
 */
bool expect_refused(const uint8_t *p, const struct ibv_mr *mr, uint32_t bytes);

#endif
