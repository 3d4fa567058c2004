/* SPDX-License-Identifier: MIT */
#include "exp/allocate_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/page_backing.h"

struct side a, b;
struct ibv_context *ctx;
struct ibv_pd *pd;
bool have_huge;

void fixture_open(void)
{
	have_huge = pages_huge_possible();
	printf("     huge pages: %s; physical addresses: %s\n", have_huge ? "yes" : "no",
	       pages_physical() ? "seen" : "hidden");
	side_open(&a, NULL);
	ctx = a.node->ctx;
	pd = a.node->pd;
}

struct ibv_mr *reg(void *addr, size_t length, uint64_t access, bool contig)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = pd,
		.addr = addr,
		.length = length,
		.exp_access = access,
		.comp_mask = contig ? IBV_EXP_REG_MR_CREATE_FLAGS : 0,
		.create_flags = contig ? IBV_EXP_REG_MR_CREATE_CONTIG : UINT32_MAX,
		.dm = (struct ibv_exp_dm *)0x5a5a5a5a,
	};
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_exp_reg_mr(&in);
	EXPECT(!mr || in.addr == mr->addr, "in->addr is %p, not %p", in.addr, mr ? mr->addr : NULL);
	EXPECT(mr || in.addr == addr, "in->addr changed without a region");
	return mr;
}

void dereg(struct ibv_mr *mr)
{
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

void set(const char *object, const char *which, const char *value)
{
	char name[64];

	snprintf(name, sizeof(name), "MLX_%s_%s", object, which);
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}
