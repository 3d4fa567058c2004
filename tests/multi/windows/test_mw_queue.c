/* SPDX-License-Identifier: MIT */
/* Binds as requests of a send queue: their order, their completions, in error, and when the queue
 * is full. */
#include <errno.h>

#include "mw_fixture.h"

static void list_rows(void)
{
	struct ibv_mw *mw = window(TYPE2);
	struct ibv_send_wr send = {.wr_id = 2,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_send_wr bindwr = {.wr_id = 1, .next = &send, .opcode = IBV_WR_BIND_MW};
	struct ibv_wc wc[2];

	row("an unsignalled bind and a SEND: whoever has the message can use the key");
	bindwr.bind_mw.mw = mw;
	bindwr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bindwr.bind_mw.bind_info = info_of(R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	side_recv_one(&b, 0, 5, 0x300000, 64);
	EXPECT(ibv_post_send(n->qp[0], &bindwr, &bad) == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, wc) == 1, "receive");
	expect_open(0, mw->rkey);
	EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, wc) == 1 && wc[0].wr_id == 2 &&
		       wc[0].status == SUCCESS,
	       "completion");
	EXPECT(node_poll(n, 0, 1, 0, wc) == 0, "a completion of the unsignalled bind");
	row("an unsignalled bind that fails completes, and the SEND behind it is flushed");
	side_recv_one(&b, 0, 5, 0x300000, 64);
	EXPECT(ibv_post_send(n->qp[0], &bindwr, &bad) == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 2, PROBE_PATIENCE, wc) == 2, "completions");
	EXPECT(wc[0].wr_id == 1 && wc[0].status == BIND_ERR && wc[0].opcode == IBV_WC_BIND_MW,
	       "bind");
	EXPECT(wc[1].wr_id == 2 && wc[1].status == IBV_WC_WR_FLUSH_ERR, "SEND");
	EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "a message behind a failed bind");
	EXPECT(node_state(n, 0) == IBV_QPS_ERR, "state %d", (int)node_state(n, 0));
	probe_reconnect(&b, &a, 0);
	free_window(mw);
}

static void flushed_row(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2);

	row("bind and LOCAL_INV on a queue pair in error");
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(bind_window(0, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE) == IBV_WC_WR_FLUSH_ERR,
	       "type 1");
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(bind_window(0, two, R_PLAIN, 0, REGION_LEN, ALL_REMOTE) == IBV_WC_WR_FLUSH_ERR,
	       "type 2");
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(invalidate(0, two->rkey) == IBV_WC_WR_FLUSH_ERR, "LOCAL_INV");
	expect_shut(0, one->rkey);
	expect_shut(0, two->rkey);
	free_window(one);
	free_window(two);
}

static void full_row(void)
{
	struct ibv_mw *mw = window(TYPE1);
	struct ibv_mw_bind bind = {.wr_id = 77,
				   .bind_info = info_of(R_PLAIN, 0, REGION_LEN, ALL_REMOTE)};
	uint32_t rkey;
	int ret = 0, i;

	row("ibv_bind_mw with a full send queue");
	for (i = 0; i < 1000 && ret == 0; i++) {
		rkey = mw->rkey;
		ret = ibv_bind_mw(n->qp[0], mw, &bind);
	}
	EXPECT(ret == ENOMEM && i == 17, "%d after %d", ret, i);
	EXPECT(mw->rkey == rkey, "the key has changed");
	expect_open(0, rkey);
	probe_reconnect(&b, &a, 0);
	free_window(mw);
}

static void run(void)
{
	list_rows();
	flushed_row();
	full_row();
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
