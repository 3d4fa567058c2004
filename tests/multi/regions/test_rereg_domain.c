/* SPDX-License-Identifier: MIT */
/* Domains of a region that goes from one to another: which of them are busy, and parent domains. */
#include <errno.h>

#include "rereg_fixture.h"

static void domain_rows(void)
{
	struct ibv_pd *one = ibv_alloc_pd(n->ctx), *two = ibv_alloc_pd(n->ctx);
	struct ibv_mr *mr = ibv_reg_mr(one, n->arena + OLD_AT, OLD_LEN, PROBE_ALL);

	row("PD: the old domain can be freed, the new one is busy");
	EXPECT_RET(ibv_dealloc_pd(one), EBUSY); /* old domain before */
	EXPECT(ibv_rereg_mr(mr, PD, two, NULL, 0, 0) == 0, "errno %d", errno);
	EXPECT_RET(ibv_dealloc_pd(two), EBUSY); /* new domain */
	EXPECT(ibv_dealloc_pd(one) == 0, "old domain: errno %d", errno);
	EXPECT(ibv_rereg_mr(mr, PD | ACCESS, foreign_pd, NULL, 0, 0) == ERR_CMD, "foreign domain");
	EXPECT_RET(ibv_dealloc_pd(two), EBUSY); /* after a refusal */
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(two) == 0, "new domain afterwards: errno %d",
	       errno);
}

static void parent_domain_row(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = n->pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(n->ctx, &attr);
	struct state s = state_old();
	struct ibv_mr *mr = region(&s), before = *mr;

	row("PD: a parent domain protects as the domain it contains");
	if (!EXPECT(parent, "ibv_alloc_parent_domain: errno %d", errno))
		return;
	EXPECT(ibv_rereg_mr(mr, PD, n->other_pd, NULL, 0, 0) == 0, "errno %d", errno);
	EXPECT(ibv_rereg_mr(mr, PD, parent, NULL, 0, 0) == 0, "errno %d", errno);
	s.pd = parent;
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
	EXPECT(ibv_dealloc_pd(parent) == 0, "ibv_dealloc_pd: errno %d", errno);
}

static void run(void)
{
	domain_rows();
	parent_domain_row();
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
