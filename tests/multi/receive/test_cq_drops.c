/* SPDX-License-Identifier: MIT */
/*
 * A CQ made with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN that is full: the completion is dropped, and
 * nothing fails. The bytes are in place, and the slots of requests come back.
 * Source: ibv_create_cq_ex(3).
 */
#include <errno.h>
#include <time.h>

#include "lib/expect.h"
#include "lib/two_sides.h"
#include "lib/wait.h"

#define PATIENCE 20000u /* ms */
#define ROOM	 4u	/* of the CQ */
#define DEPTH	 16u	/* of the queues: a power of two */
#define SLOT	 4096u
#define LONG	 2048u /* bytes of a message that does not fit into a completion */
#define CQ	 2

static struct node *n;
static struct ibv_srq *srq;
static struct ibv_qp *qp;

/* --- both queue pairs: a's have the CQ that drops ------------------------------------- */

static struct ibv_cq *create_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = ROOM,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(n->ctx, &attr);

	NEED(ex);
	return ibv_cq_ex_to_cq(ex);
}

static void connect_sides(uint32_t theirs)
{
	struct node_link here = link_default(), there = link_default();

	here.dest_qpn = theirs;
	here.dgid = b.info.gid;
	there.dest_qpn = qp->qp_num;
	there.dgid = a.info.gid;
	there.rnr_retry = here.rnr_retry = 7;
	if (side_connect(&a, 0, &here) || side_connect(&b, 0, &there))
		DIE("not connected");
}

static void open_pair(bool shared)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_qp_init_attr init = {.cap = {DEPTH, DEPTH, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	uint32_t theirs;

	srq = shared ? ibv_create_srq(n->pd, &srq_init) : NULL;
	n->cq[CQ] = create_cq();
	init.send_cq = init.recv_cq = n->cq[CQ];
	init.srq = srq;
	qp = n->qp[0] = ibv_create_qp(n->pd, &init);
	if (!qp || side_create_qp(&b, 0, &spec, &theirs))
		DIE("no queue pair");
	connect_sides(theirs);
}

static void close_pair(void)
{
	struct node_event e = side_own_async(&a, 0);

	EXPECT(!e.any, "event %d", e.type);
	EXPECT(side_state(&a, 0) == IBV_QPS_RTS, "state %d", side_state(&a, 0));
	EXPECT(side_destroy_qp(&a, 0) == 0 && side_destroy_qp(&b, 0) == 0, "destroy");
	EXPECT(!srq || ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	EXPECT(node_destroy_cq(n, CQ) == 0, "ibv_destroy_cq");
}

/* The completions that are there are those of requests @first to @last, and then there is none. */
static void expect_polled(uint64_t first, uint64_t last)
{
	struct ibv_wc wc;
	int more;

	for (uint64_t i = first; i <= last; i++)
		if (!EXPECT(side_poll(&a, CQ, 1, PATIENCE, &wc) == 1 && wc.wr_id == i &&
				    wc.status == IBV_WC_SUCCESS,
			    "request %lu, status %d, not request %lu", wc.wr_id, wc.status, i))
			return;
	more = ibv_poll_cq(n->cq[CQ], 1, &wc);
	EXPECT(more == 0, "ibv_poll_cq: %d", more);
}

/* --- receiving ------------------------------------------------------------------------ */

static int post(uint64_t wr_id)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, wr_id % DEPTH * SLOT, SLOT);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

/* As many requests as the queue takes. Return: how many */
static uint32_t post_all(uint64_t *next)
{
	uint32_t posted = 0;

	for (; post(*next) == 0; (*next)++)
		posted++;
	return posted;
}

static void send_to(uint64_t number, uint32_t bytes)
{
	struct node_send s = side_message(side_sge(&b, KEY_FULL, 0, bytes));
	struct ibv_wc wc;

	side_poke(&b, 0, number);
	side_poke(&b, bytes - 8, number);
	if (side_post_send(&b, 0, &s, 1).ret || side_poll(&b, 0, 1, PATIENCE, &wc) != 1)
		DIE("not sent");
	EXPECT(wc.status == IBV_WC_SUCCESS, "message %lu: %s", number,
	       ibv_wc_status_str(wc.status));
}

/* Messages into all requests that are posted: ROOM of them complete, all of them arrive. */
static void fill(uint64_t first, uint64_t behind, uint32_t bytes)
{
	for (uint64_t i = first; i < behind; i++)
		send_to(i, bytes);
	expect_polled(first, first + ROOM - 1);
	for (uint64_t i = first; i < behind; i++) {
		uint64_t at = i % DEPTH * SLOT, head = side_peek(&a, at),
			 end = side_peek(&a, at + bytes - 8);

		EXPECT(head == i && end == i, "message %lu: %lu, %lu", i, head, end);
	}
}

static void receive_row(const char *name, bool shared, uint32_t bytes)
{
	uint64_t next = 0, first;
	uint32_t posted;

	row("%s, %u bytes", name, bytes);
	open_pair(shared);
	for (int turn = 0; turn < 3; turn++) {
		first = next;
		posted = post_all(&next);
		EXPECT(posted == DEPTH, "turn %d: %u requests", turn, posted);
		fill(first, next, bytes);
	}
	close_pair();
}

/* --- sending -------------------------------------------------------------------------- */

static void post_send(uint64_t wr_id, enum ibv_wr_opcode opcode, unsigned int flags, uint64_t at,
		      uint64_t remote)
{
	struct node_send s = {.wr_id = wr_id,
			      .opcode = opcode,
			      .flags = flags,
			      .num_sge = 1,
			      .sge = {side_sge(&a, KEY_FULL, at, 8)},
			      .remote_addr = b.info.base[KEY_FULL] + remote,
			      .rkey = b.info.key[KEY_FULL]};

	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "request %lu is refused", wr_id);
}

static void await_word(struct side *s, uint64_t at, uint64_t word)
{
	(void)WAIT_UNTIL(side_peek(s, at) == word, PATIENCE);
	EXPECT(side_peek(s, at) == word, "%lu, not %lu", side_peek(s, at), word);
}

static void send_row(void)
{
	row("sending: more requests than there is room for completions");
	open_pair(false);
	side_poke(&b, 64, 0);
	for (uint64_t i = 0; i < 2 * ROOM; i++) {
		side_poke(&a, i * 8, i + 1);
		post_send(i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, i * 8, 64);
	}
	await_word(&b, 64, 2 * ROOM);
	expect_polled(0, ROOM - 1);
	row("... slots come back with a later completion");
	for (uint64_t i = 2 * ROOM; i < 2 * ROOM + DEPTH - ROOM; i++) {
		side_poke(&a, i * 8, i + 1);
		post_send(i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, i * 8, 64);
	}
	await_word(&b, 64, ROOM + DEPTH);
	expect_polled(2 * ROOM, 3 * ROOM - 1);
	post_send(99, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 64);
	expect_polled(99, 99);
	close_pair();
}

/*
 * The peer's post lets the requests go on, and so its process executes them: the READ's answer
 * would wait in its completion.
 */
static void answer_row(void)
{
	struct node_recv r = {.wr_id = 1, .num_sge = 1, .sge = {side_sge(&b, KEY_FULL, 4096, 64)}};

	row("the answer of a READ whose completion is dropped, and a fence behind it");
	open_pair(false);
	side_poke(&a, 0, 0);
	side_poke(&b, 0, 77);
	side_poke(&b, 64, 0);
	post_send(0, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 0);
	for (uint64_t i = 1; i <= ROOM; i++)
		post_send(i, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, i == ROOM ? 0 : 64);
	post_send(9, IBV_WR_RDMA_WRITE, IBV_SEND_FENCE, 0, 64);
	EXPECT(side_post_recv(&b, 0, &r, 1).ret == 0, "post_recv");
	await_word(&b, 64, 77);
	EXPECT(side_peek(&a, 0) == 77, "%lu", side_peek(&a, 0));
	close_pair();
}

int main(int argc, char **argv)
{
	two_sides_open(argc, argv);
	n = a.node;
	receive_row("own queue", false, 16);
	receive_row("own queue", false, LONG);
	receive_row("shared queue", true, 16);
	receive_row("shared queue", true, LONG);
	send_row();
	answer_row();
	return two_sides_close();
}
