/* SPDX-License-Identifier: MIT */
/*
 * What the tests of access through keys (test_umr_access_*.c) share: all accesses to some bytes of
 * a key, and keys around something that is to be looked at. The rest is in umr_fixture.h.
 */
#ifndef TEST_UMR_ACCESS_FIXTURE_H
#define TEST_UMR_ACCESS_FIXTURE_H

#include "umr_fixture.h"

#define INDIRECT IBV_EXP_MR_INDIRECT_KLMS
#define BASE	 0x8000u /* of keys */
#define PIECE	 104u
#define GOOD	 IBV_WC_SUCCESS
#define REMOTE	 IBV_WC_REM_ACCESS_ERR
#define LOCAL	 IBV_WC_LOC_PROT_ERR
#define WRITE	 IBV_EXP_ACCESS_LOCAL_WRITE

extern uint64_t seed; /* of the pattern that the memory was filled with last */

/* Which accesses are permitted. */
enum {
	R_WRITE = 1,
	R_READ = 2,
	R_ATOMIC = 4,
	L_READ = 8,
	L_WRITE = 16,
	READS = R_READ | L_READ,
	ALL = R_WRITE | R_ATOMIC | L_WRITE | READS
};

void expect_status(enum ibv_wc_status got, enum ibv_wc_status wanted, const char *what);

/*
 * All accesses to @count bytes at @at of a key; what is permitted (@good) is done, and of the rest
 * nothing.
 * @key: its model with @at the place of the bytes, for what is done.
 */
void expect_accesses(const struct made *key, uint32_t at, uint32_t count, unsigned int good);

/* A list with all rights, at BASE, inline. */
struct list list_of(const struct element *e, uint32_t count);

/* Three pieces, of which the one in the middle is the one that matters. Words are where atomics
 * want them. */
struct list around(const struct made *middle);

/* The same bytes by another region. */
struct made like(const struct made *m, struct ibv_mr *mr);

/* A region that there has to be. */
struct ibv_mr *need(struct ibv_mr *mr);
void *plain_memory(void); /* of LEAF_PLAIN */

#endif
