/* SPDX-License-Identifier: MIT */
/* Which regions cannot be re-registered: null regions, device memory, and those with a window
 * bound. */
#include <errno.h>

#include "rereg_fixture.h"

static void null_rows(void)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(n->pd);

	for (int flags = 0; flags < 8 && mr; flags++) {
		struct args args = {flags, PD_OTHER, AT_NEW, NEW_LEN,
				    flags & ACCESS ? PROBE_ALL : 0};

		row("null region: %s", flags_name(flags));
		expect_refused(mr, &args, ERR_INPUT, EINVAL, 0);
		EXPECT(mr->pd == n->pd && !mr->addr && mr->length == SIZE_MAX, "fields");
	}
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void device_rows(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 8192};
	struct ibv_dm *dm = ibv_alloc_dm(n->ctx, &attr);
	struct ibv_mr *mr =
		dm ? ibv_reg_dm_mr(n->pd, dm, 0, 8192, PROBE_ALL | IBV_ACCESS_ZERO_BASED) : NULL;

	if (!EXPECT(mr, "device memory"))
		return;
	for (int flags = 0; flags < 8; flags++) {
		struct args args = {flags, PD_OTHER, AT_NEW, NEW_LEN,
				    flags & ACCESS ? PROBE_ALL : 0};

		row("device memory: %s", flags_name(flags));
		expect_refused(mr, &args, ERR_CMD, EINVAL, 0);
		EXPECT(mr->pd == n->pd && !mr->addr && mr->length == 8192, "fields");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, 0, mr->rkey, 8192, IBV_WC_SUCCESS);
	}
	row("device memory: afterwards");
	EXPECT(ibv_free_dm(dm) == EBUSY, "ibv_free_dm with a region");
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0, "errno %d", errno);
}

static void bind(struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length)
{
	struct ibv_mw_bind wr = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = mr,
			      .addr = length ? (uintptr_t)mr->addr : 0,
			      .length = length,
			      .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE},
	};
	struct ibv_wc wc;
	int ret = ibv_bind_mw(n->qp[0], mw, &wr);

	if (EXPECT(ret == 0, "ibv_bind_mw: %d", ret))
		EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
		       "bind");
}

static void window_rows(void)
{
	struct state s = state_old();
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct args args = {.flags = 0};
	struct ibv_mr *mr, before;

	s.access |= IBV_ACCESS_MW_BIND;
	mr = region(&s);
	before = *mr;
	bind(mw, mr, OLD_LEN);
	for (int flags = 1; flags < 8; flags++) {
		args = (struct args){flags, PD_OTHER, AT_NEW, NEW_LEN,
				     flags & ACCESS ? PROBE_ALL : 0};
		row("with a window bound: %s", flags_name(flags));
		expect_refused(mr, &args, ERR_CMD, EBUSY, 0);
		expect_fields(mr, &s, &before);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mw->rkey, 8,
			     IBV_WC_SUCCESS);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 8,
			     IBV_WC_SUCCESS);
	}
	row("with a window unbound again");
	bind(mw, NULL, 0);
	EXPECT(call(mr, &args) == 0, "errno %d", errno);
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_mw(mw) == 0, "errno %d", errno);
}

static void run(void)
{
	null_rows();
	device_rows();
	window_rows();
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
