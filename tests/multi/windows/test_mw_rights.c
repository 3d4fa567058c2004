/* SPDX-License-Identifier: MIT */
/* Which accesses a memory window permits: those it was bound for, whatever its region grants. */
#include "mw_fixture.h"

/* The window's rights count, whatever the region grants. */
static void rights_row(enum ibv_mw_type type, enum region r, unsigned int access)
{
	struct ibv_mw *mw = window(type);

	row("type %d: rights 0x%x on a region %s remote rights", (int)type, access,
	    r == R_REMOTE ? "with" : "without");
	need_bind(0, mw, r, 0, REGION_LEN, access);
	expect_access(0, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey,
		      access & IBV_ACCESS_REMOTE_WRITE);
	expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, mw->rkey,
		      access & IBV_ACCESS_REMOTE_READ);
	expect_access(0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)memory, mw->rkey,
		      access & IBV_ACCESS_REMOTE_ATOMIC);
	expect_access(0, IBV_WR_ATOMIC_CMP_AND_SWP, (uintptr_t)memory, mw->rkey,
		      access & IBV_ACCESS_REMOTE_ATOMIC);
	free_window(mw);
}

static void rights_table(void)
{
	for (unsigned int i = 0; i < 8; i++) {
		unsigned int access = (i & 1 ? IBV_ACCESS_REMOTE_WRITE : 0) |
				      (i & 2 ? READ_RIGHT : 0) |
				      (i & 4 ? IBV_ACCESS_REMOTE_ATOMIC : 0);

		rights_row(TYPE1, R_PLAIN, access);
		rights_row(TYPE2, R_PLAIN, access);
		rights_row(TYPE2, R_REMOTE, access);
	}
}

static void key_rows(void)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send s = {.opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .remote_addr = b.info.base[KEY_FULL] + PROBE_AT,
			      .rkey = b.info.key[KEY_FULL],
			      .num_sge = 1};

	row("a window's key is no lkey");
	need_bind(0, mw, R_REMOTE, 0, REGION_LEN, ALL_REMOTE);
	s.sge[0] = (struct ibv_sge){.addr = (uintptr_t)memory, .length = 8, .lkey = mw->rkey};
	EXPECT(probe_request(&a, &b, 0, &s) == IBV_WC_LOC_PROT_ERR, "used");
	row("the region's own key permits what the region permits, not the window");
	expect_shut(0, region[R_PLAIN]->rkey);
	expect_open(0, region[R_REMOTE]->rkey);
	free_window(mw);
}

static void run(void)
{
	rights_table();
	key_rows();
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
