/* SPDX-License-Identifier: MIT */
/* What the tests of memory that the library allocates share: two sides, and registering in this
 * process. */
#ifndef TEST_ALLOCATE_FIXTURE_H
#define TEST_ALLOCATE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <infiniband/verbs_exp.h>

#include "lib/side.h"

#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define ALLOCATE (RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR)
#define MB	 (1ul << 20)

extern struct side a, b;	/* a in this process; b in another, if the test has started it */
extern struct ibv_context *ctx; /* a's */
extern struct ibv_pd *pd;
extern bool have_huge; /* the kernel makes huge pages of shared memory */

/* Open a, and look what the machine has. */
void fixture_open(void);

/* ibv_exp_reg_mr() in @pd, @contig: with CREATE_CONTIG. What it leaves in its argument is checked.
 */
struct ibv_mr *reg(void *addr, size_t length, uint64_t access, bool contig);

/* Expect that it can be. */
void dereg(struct ibv_mr *mr);

/* Set MLX_@object_@which in the environment; NULL: unset. */
void set(const char *object, const char *which, const char *value);

#endif
