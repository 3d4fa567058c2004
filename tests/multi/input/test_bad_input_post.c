/* SPDX-License-Identifier: MIT */
/* Which posts are refused: in which states, of which requests, when a queue is full; and where
 * lists stop. */
#include "bad_input_fixture.h"

#define SLOTS	  4
#define PATIENCE  30000u /* ms */
#define SETTLE_MS 300u	 /* in which another completion would have come */

static struct node_send a_send(uint64_t wr_id)
{
	return (struct node_send){.wr_id = wr_id,
				  .opcode = IBV_WR_SEND,
				  .flags = IBV_SEND_SIGNALED,
				  .num_sge = 1,
				  .sge = {side_sge(&here, KEY_FULL, 0, 8)}};
}

static struct node_recv a_receive(uint64_t wr_id)
{
	return (struct node_recv){
		.wr_id = wr_id, .num_sge = 1, .sge = {side_sge(&here, KEY_FULL, PAGE, 8)}};
}

static void expect_refused(struct node_posted posted, int bad, int want)
{
	EXPECT(posted.ret == want && posted.errno_ == want, "returned %d, errno %d instead of %d",
	       posted.ret, posted.errno_, want);
	EXPECT(posted.bad == bad, "bad_wr is element %d instead of %d", posted.bad, bad);
}

/* A queue pair of @SLOTS requests connected with itself. */
static void create_self(const struct ibv_qp_cap *cap, enum ibv_qp_state to)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();

	if (cap)
		spec.cap = *cap;
	else
		spec.cap.max_send_wr = spec.cap.max_recv_wr = SLOTS;
	spec.cap.max_send_sge = spec.cap.max_recv_sge = 2;
	pair_create(&here, 0, &here, 0, &spec);
	link.to = to;
	if (to != IBV_QPS_RESET)
		pair_connect(&here, 0, &link, &here, 0, &link);
}

static void post_state_rows(void)
{
	struct node_send send = a_send(1);
	struct node_recv receive = a_receive(1);

	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_RTR; s++) {
		create_self(NULL, s);
		row("post_send in state %d", (int)s);
		expect_refused(node_post_send(n, 0, &send, 1), 0, EINVAL);
		row("post_recv in state %d", (int)s);
		if (s == IBV_QPS_RESET)
			expect_refused(node_post_recv(n, 0, &receive, 1), 0, EINVAL);
		else
			EXPECT(node_post_recv(n, 0, &receive, 1).ret == 0, "refused");
		node_destroy_qp(n, 0);
	}
}

/*
 * So many completions, and no other. What was posted is done when the call returns; on the wire,
 * when its answer has come.
 */
static bool completes(int cq, int count, struct ibv_wc *wc)
{
	struct ibv_wc more;

	return node_poll(n, cq, count, on_the_wire() ? PATIENCE : 0, wc) == count &&
	       node_poll(n, cq, 1, on_the_wire() ? SETTLE_MS : 0, &more) == 0;
}

/* [good, bad, good]: the first is executed, the second refused, the third never seen. */
static void bad_in_the_middle(const char *name, struct node_send bad)
{
	struct node_send list[3] = {a_send(1), bad, a_send(3)};
	struct node_recv receive[2] = {a_receive(11), a_receive(12)};
	struct ibv_wc wc[4];

	row("post_send: %s", name);
	create_self(NULL, IBV_QPS_RTS);
	EXPECT(node_post_recv(n, 0, receive, 2).ret == 0, "ibv_post_recv");
	expect_refused(node_post_send(n, 0, list, 3), 1, EINVAL);
	EXPECT(completes(0, 1, wc) && wc[0].wr_id == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "the request before it was not executed, or one behind it was");
	EXPECT(completes(1, 1, wc) && wc[0].wr_id == 11, "receives");
	EXPECT(node_state(n, 0) == IBV_QPS_RTS, "state %d", (int)node_state(n, 0));
	EXPECT(node_post_send(n, 0, list, 1).ret == 0 && completes(0, 1, wc) &&
		       wc[0].status == IBV_WC_SUCCESS,
	       "the queue pair does not go on");
	node_destroy_qp(n, 0);
}

static void bad_request_rows(void)
{
	struct node_send bad = a_send(2);

	bad.opcode = (enum ibv_wr_opcode)99;
	bad_in_the_middle("opcode 99", bad);
	bad.opcode = (enum ibv_wr_opcode) - 1;
	bad_in_the_middle("opcode -1", bad);
	bad.opcode = IBV_WR_DRIVER1;
	bad_in_the_middle("opcode DRIVER1", bad);
	bad.opcode = IBV_WR_TSO;
	bad_in_the_middle("opcode TSO on RC", bad);
	bad = a_send(2);
	bad.num_sge = 3;
	bad.sge[1] = bad.sge[2] = bad.sge[0];
	bad_in_the_middle("one element too many", bad);
	bad.num_sge = -1;
	bad_in_the_middle("-1 elements", bad);
	bad = a_send(2);
	bad.flags |= IBV_SEND_INLINE;
	bad.sge[0].length = 513;
	bad_in_the_middle("one byte of inline data too many", bad);
	bad.sge[0].length = UINT32_MAX;
	bad_in_the_middle("4 GiB of inline data", bad);
	bad.sge[0].length = 8;
	bad.opcode = IBV_WR_RDMA_READ;
	bad.remote_addr = here.info.base[KEY_FULL];
	bad.rkey = here.info.key[KEY_FULL];
	bad_in_the_middle("inline READ", bad);
	bad.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	bad_in_the_middle("inline atomic", bad);
}

static void full_send_queue_row(void)
{
	struct node_send list[SLOTS + 3];
	struct node_recv receive[SLOTS];
	struct ibv_wc wc[SLOTS];

	row("post_send: a full queue refuses the request after the last slot");
	create_self(NULL, IBV_QPS_RTS);
	for (uint64_t i = 0; i < COUNT_OF(list); i++)
		list[i] = a_send(i);
	for (uint64_t i = 0; i < COUNT_OF(receive); i++)
		receive[i] = a_receive(i);
	EXPECT(node_post_recv(n, 0, receive, SLOTS).ret == 0, "ibv_post_recv");
	expect_refused(node_post_send(n, 0, list, SLOTS + 3), SLOTS, ENOMEM);
	expect_refused(node_post_send(n, 0, list, 1), 0, ENOMEM);
	EXPECT(completes(0, SLOTS, wc), "completions");
	for (uint64_t i = 0; i < SLOTS; i++)
		EXPECT(wc[i].wr_id == i && wc[i].status == IBV_WC_SUCCESS, "completion %d", (int)i);
	row("post_send: slots are free once completions are polled");
	EXPECT(completes(1, SLOTS, wc) && node_post_recv(n, 0, receive, SLOTS).ret == 0,
	       "receives");
	EXPECT(node_post_send(n, 0, list, SLOTS).ret == 0, "ibv_post_send");
	EXPECT(completes(0, SLOTS, wc), "completions");
	node_destroy_qp(n, 0);
}

static void full_receive_queue_row(void)
{
	struct node_recv list[SLOTS + 3];

	row("post_recv: a full queue refuses the request after the last slot");
	create_self(NULL, IBV_QPS_RTS);
	for (uint64_t i = 0; i < COUNT_OF(list); i++)
		list[i] = a_receive(i);
	expect_refused(node_post_recv(n, 0, list, SLOTS + 3), SLOTS, ENOMEM);
	expect_refused(node_post_recv(n, 0, list, 1), 0, ENOMEM);
	node_destroy_qp(n, 0);
	row("post_recv: too many elements in the second of three");
	create_self(NULL, IBV_QPS_RTS);
	list[1].num_sge = 3;
	expect_refused(node_post_recv(n, 0, list, 3), 1, EINVAL);
	list[1].num_sge = -1;
	expect_refused(node_post_recv(n, 0, list, 3), 1, EINVAL);
	list[1] = a_receive(1);
	expect_refused(node_post_recv(n, 0, list, SLOTS), SLOTS - 2, ENOMEM);
	node_destroy_qp(n, 0);
}

static void endless_list_row(void)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

	row("post_recv: a list that loops stops when the queue is full");
	create_self(NULL, IBV_QPS_RTS);
	wr.next = &wr;
	EXPECT_RET(ibv_post_recv(n->qp[0], &wr, &bad), ENOMEM);
	EXPECT(bad == &wr, "bad_wr");
	node_destroy_qp(n, 0);
}

static void no_queue_rows(void)
{
	const struct ibv_qp_cap none = {0};
	struct node_send send = a_send(1);
	struct node_recv receive = a_receive(1);

	row("a queue without slots takes no request");
	create_self(&none, IBV_QPS_RTS);
	expect_refused(node_post_send(n, 0, &send, 1), 0, ENOMEM);
	expect_refused(node_post_recv(n, 0, &receive, 1), 0, ENOMEM);
	node_destroy_qp(n, 0);
}

static void error_state_row(void)
{
	struct node_send send = a_send(7);
	struct node_recv receive = a_receive(8);
	struct ibv_wc wc[2];

	row("posts in state ERR succeed and are flushed");
	create_self(NULL, IBV_QPS_RTS);
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	send.flags = 0;
	EXPECT(node_post_send(n, 0, &send, 1).ret == 0 &&
		       node_post_recv(n, 0, &receive, 1).ret == 0,
	       "refused");
	EXPECT(node_poll(n, 0, 2, 0, wc) == 1 && wc[0].status == IBV_WC_WR_FLUSH_ERR &&
		       wc[0].wr_id == 7,
	       "send");
	EXPECT(node_poll(n, 1, 2, 0, wc) == 1 && wc[0].status == IBV_WC_WR_FLUSH_ERR &&
		       wc[0].wr_id == 8,
	       "receive");
	node_destroy_qp(n, 0);
}

static void post_rows(void)
{
	post_state_rows();
	bad_request_rows();
	full_send_queue_row();
	full_receive_queue_row();
	endless_list_row();
	no_queue_rows();
	error_state_row();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, post_rows);
}
