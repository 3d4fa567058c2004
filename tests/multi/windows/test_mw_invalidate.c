/* SPDX-License-Identifier: MIT */
/*
 * Invalidation of memory windows by LOCAL_INV and by the other side's SEND_WITH_INV: of what, of
 * what not, and when.
 */
#include <string.h>

#include "mw_fixture.h"

static void invalidate_row(const char *name, uint32_t rkey, enum ibv_wc_status want)
{
	enum ibv_wc_status got;

	row("LOCAL_INV of %s", name);
	got = invalidate(0, rkey);
	EXPECT(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	row("LOCAL_INV of %s, posted by ibv_wr_local_inv", name);
	got = invalidate(QP_EX, rkey);
	EXPECT(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
}

static void invalidate_rows(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2), *bound = window(TYPE2),
		      *gone = window(TYPE2);
	uint32_t freed = gone->rkey;

	need_bind(0, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	need_bind(1, bound, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	free_window(gone);
	invalidate_row("key 0", 0, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a key never given out", 0x7fffff00, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a region's key", region[R_REMOTE]->rkey, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a freed window's key", freed, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a window of type 1", one->rkey, BIND_ERR);
	invalidate_row("a window that is not bound", two->rkey, BIND_ERR);
	invalidate_row("a window bound on another queue pair", bound->rkey, BIND_ERR);
	invalidate_row("an older key of a bound window",
		       (bound->rkey & ~0xffu) | ((bound->rkey - 1) & 0xff), BIND_ERR);
	row("after refused invalidations all is as before");
	expect_open(0, one->rkey);
	expect_open(1, bound->rkey);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)memory, region[R_REMOTE]->rkey, 8,
		     SUCCESS);
	free_window(one);
	free_window(two);
	free_window(bound);
}

/* --- SEND_WITH_INV --------------------------------------------------------------- */

static struct node_send send_inv(uint32_t rkey, uint32_t bytes)
{
	return (struct node_send){.opcode = IBV_WR_SEND_WITH_INV,
				  .flags = IBV_SEND_SIGNALED,
				  .imm = rkey, /* one field with invalidate_rkey */
				  .num_sge = bytes > 0,
				  .sge = {side_sge(&b, KEY_FULL, PROBE_AT, bytes)}};
}

static void send_inv_row(uint32_t bytes)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send s;
	struct ibv_wc sent, wc = {.status = IBV_WC_GENERAL_ERR};

	row("SEND_WITH_INV of %u bytes shuts the window before its receive completes", bytes);
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	s = send_inv(mw->rkey, bytes);
	side_fill(&b, PROBE_AT, bytes, 6, 0);
	side_recv_one(&a, 0, 5, 0x300000, bytes);
	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1 && sent.status == SUCCESS &&
		       sent.opcode == IBV_WC_SEND,
	       "sender: '%s'", ibv_wc_status_str(sent.status));
	EXPECT(node_poll(n, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS,
	       "receiver: '%s'", ibv_wc_status_str(wc.status));
	EXPECT(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV &&
		       wc.invalidated_rkey == mw->rkey && wc.byte_len == bytes && wc.wr_id == 5,
	       "completion: opcode %d, flags %u, key 0x%x", (int)wc.opcode,
	       (unsigned int)wc.wc_flags, wc.invalidated_rkey);
	EXPECT(side_check(&a, 0x300000, bytes, 6, 0) == -1, "bytes of the message");
	expect_shut(0, mw->rkey);
	need_bind(1, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(1, mw->rkey);
	free_window(mw);
}

/* WRITE, SEND_WITH_INV, WRITE in one list: the second WRITE comes too late. */
static void send_inv_order_row(void)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send list[3];
	struct ibv_wc wc[3];

	row("WRITE, SEND_WITH_INV and WRITE in one list");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	list[1] = send_inv(mw->rkey, 0);
	list[0] = list[2] = (struct node_send){.opcode = IBV_WR_RDMA_WRITE,
					       .flags = IBV_SEND_SIGNALED,
					       .remote_addr = (uintptr_t)memory,
					       .rkey = mw->rkey,
					       .num_sge = 1,
					       .sge = {side_sge(&b, KEY_FULL, PROBE_AT, 64)}};
	list[2].remote_addr += 64;
	memset(memory, 0, 128);
	side_fill(&b, PROBE_AT, 64, 8, 0);
	side_recv_one(&a, 0, 5, 0x300000, 64);
	EXPECT(side_post_send(&b, 0, list, 3).ret == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 0, 3, PROBE_PATIENCE, wc) == 3, "completions");
	EXPECT(wc[0].status == SUCCESS && wc[1].status == SUCCESS &&
		       wc[2].status == IBV_WC_REM_ACCESS_ERR,
	       "%d %d %d", (int)wc[0].status, (int)wc[1].status, (int)wc[2].status);
	EXPECT(pattern_check(memory, 64, 8, 0) == -1 && memory[64] == 0, "bytes");
	probe_reconnect(&b, &a, 0);
	free_window(mw);
}

/* What cannot be invalidated: the receive fails, and the sender hears nothing until its retries are
 * spent. */
static void bad_send_inv_row(const char *name, int qp, uint32_t rkey)
{
	struct node_send s = send_inv(rkey, 8);
	struct ibv_wc sent = {.status = SUCCESS}, wc = {.status = SUCCESS};

	row("SEND_WITH_INV of %s", name);
	side_recv_one(&a, qp, 5, 0x300000, 64);
	EXPECT(side_post_send(&b, qp, &s, 1).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status != SUCCESS &&
		       wc.wr_id == 5,
	       "receiver: '%s'", ibv_wc_status_str(wc.status));
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1 &&
		       sent.status == IBV_WC_RETRY_EXC_ERR,
	       "sender: '%s'", ibv_wc_status_str(sent.status));
	probe_reconnect(&b, &a, qp);
}

static void bad_send_inv_rows(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2);

	need_bind(0, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	need_bind(0, two, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	bad_send_inv_row("key 0", 0, 0);
	bad_send_inv_row("a key never given out", 0, 0x7fffff00);
	bad_send_inv_row("a region's key", 0, region[R_REMOTE]->rkey);
	bad_send_inv_row("a window of type 1", 0, one->rkey);
	bad_send_inv_row("a window bound on another queue pair", 1, two->rkey);
	bad_send_inv_row("an older key of the window", 0,
			 (two->rkey & ~0xffu) | ((two->rkey - 1) & 0xff));
	row("after refused invalidations both windows are open");
	expect_open(0, one->rkey);
	expect_open(0, two->rkey);
	free_window(one);
	free_window(two);
}

/* Posted through ibv_wr_send_inv() by the owner to the other side, whose key nothing is known of:
 * refused there. */
static void wr_send_inv_row(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(n->qp[QP_EX]);
	struct ibv_wc wc = {.status = SUCCESS}, theirs = {.status = SUCCESS};

	row("ibv_wr_send_inv of a key that is not a window's");
	side_recv_one(&b, QP_EX, 5, 0x300000, 64);
	ibv_wr_start(ex);
	ex->wr_id = 77;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(ex, b.info.key[KEY_FULL]);
	ibv_wr_set_sge(ex, n->mr[KEY_FULL]->lkey, (uintptr_t)n->arena, 8);
	EXPECT(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, &theirs) == 1 && theirs.status != SUCCESS,
	       "receiver");
	EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_RETRY_EXC_ERR,
	       "sender: '%s'", ibv_wc_status_str(wc.status));
	probe_reconnect(&b, &a, QP_EX);
}

static void run(void)
{
	invalidate_rows();
	send_inv_row(0);
	send_inv_row(8);
	send_inv_row(5000);
	send_inv_row(40000);
	send_inv_order_row();
	bad_send_inv_rows();
	wr_send_inv_row();
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
