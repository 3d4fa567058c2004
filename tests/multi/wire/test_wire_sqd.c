/* SPDX-License-Identifier: MIT */
/*
 * A send queue is drained when its last message is done: also if nothing is under way for a moment
 * in the middle of it, since the peer has to say how many receive requests it has, or may be asked
 * for one part of a READ at a time. What is changed while it is drained is in force from then on.
 */
#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/two_hosts.h"

#define PATIENCE  30000u /* ms */
#define BRIEFLY	  30	 /* ms in which nothing should come */
#define MTU	  4096u
#define FIRST_PSN 0xffffffu
#define PEER_QPN  0x4711u
#define BYTES	  (1u << 20)
#define PACKETS	  (BYTES / MTU)

static struct side b; /* on host 1; host 0 is this process, with a socket */
static uint32_t b_qpn;

static void make_connected(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();

	link.dest_qpn = PEER_QPN;
	link.dgid = forge_gid;
	link.rq_psn = link.sq_psn = FIRST_PSN;
	link.mtu = IBV_MTU_4096;
	link.timeout = 0; /* repeated without end */
	link.rd_atomic = 1;
	NEED(side_create_qp(&b, 0, &spec, &b_qpn) == 0);
	NEED(side_connect(&b, 0, &link) == 0);
}

static void post(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_send s = {
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&b, KEY_FULL, 0, bytes)},
		.remote_addr = 0x1000,
		.rkey = 7,
	};

	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "post_send");
}

static void drain(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	EXPECT(side_modify(&b, 0, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0, "SQD");
}

/* Answer packets @at to @end of a READ that has come, but the last one. */
static void answer_part(uint32_t at, uint32_t end)
{
	for (uint32_t i = at; i < end && i + 1 < PACKETS; i++) {
		uint8_t opcode = i + 1 == end ? (i == at ? READ_ONLY : READ_LAST)
					      : (i == at ? READ_FIRST : READ_MIDDLE);

		forge_send(b_qpn,
			   (struct av_packet){.opcode = opcode,
					      .psn = FIRST_PSN + i,
					      .syndrome = ACK,
					      .payload_bytes = MTU},
			   NONE);
	}
}

static void acknowledge(uint32_t at)
{
	forge_send(
		b_qpn,
		(struct av_packet){.opcode = ACKNOWLEDGE, .psn = FIRST_PSN + at, .syndrome = ACK},
		NONE);
}

/* Packets of the message that are there, or have been asked for, after @p, packet @at. */
static uint32_t take(enum ibv_wr_opcode op, const struct av_packet *p, uint32_t at)
{
	uint32_t end = op == IBV_WR_RDMA_READ ? at + p->length / MTU : at + 1;

	if (op == IBV_WR_RDMA_READ)
		answer_part(at, end);
	else if (p->ack_request && end < PACKETS)
		acknowledge(at);
	return end;
}

static void finish(enum ibv_wr_opcode op)
{
	if (op == IBV_WR_RDMA_READ)
		forge_send(b_qpn,
			   (struct av_packet){.opcode = READ_LAST,
					      .psn = FIRST_PSN + PACKETS - 1,
					      .syndrome = ACK,
					      .payload_bytes = MTU},
			   NONE);
	else
		acknowledge(PACKETS - 1);
}

static void expect_end(enum ibv_wc_status status)
{
	struct ibv_wc wc;

	EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == status, "status %d",
	       wc.status);
}

/*
 * On a busy machine, packets that are answered late come again; and of a socket with little room
 * some are lost: these are asked for, once. Return: is it the packet behind @at?
 */
static bool is_next(const struct av_packet *p, uint32_t at, uint32_t *asked)
{
	uint32_t ahead = (p->psn - FIRST_PSN - at) & AV_PSN_MASK;

	if (ahead && ahead <= AV_PSN_MASK / 2 && *asked != at) {
		*asked = at;
		forge_send(b_qpn,
			   (struct av_packet){.opcode = ACKNOWLEDGE,
					      .psn = FIRST_PSN + at,
					      .syndrome = SEQUENCE},
			   NONE);
	}
	return ahead == 0;
}

static void is_drained(const char *name, enum ibv_wr_opcode op)
{
	uint32_t at = 0, asked = PACKETS;
	struct av_packet p;
	struct node_event e;

	row("%s", name);
	make_connected();
	post(op, BYTES);
	while (at < PACKETS && EXPECT(forge_receive(&p, (int)PATIENCE), "stops at %u", at)) {
		if (at == 0)
			drain();
		if (is_next(&p, at, &asked))
			at = take(op, &p, at);
	}
	e = side_own_async(&b, BRIEFLY);
	EXPECT(!e.any, "too early, event %d", e.type);
	finish(op);
	expect_end(IBV_WC_SUCCESS);
	e = side_own_async(&b, PATIENCE);
	EXPECT(e.any && e.type == IBV_EVENT_SQ_DRAINED, "no event, or another");
	EXPECT(side_state(&b, 0) == IBV_QPS_SQD, "state %d", side_state(&b, 0));
	NEED(side_destroy_qp(&b, 0) == 0);
	while (forge_receive(&p, BRIEFLY))
		;
}

static void has_another_patience(void)
{
	struct av_packet p;
	uint32_t sent = 0;

	row("retry_cnt");
	make_connected();
	post(IBV_WR_RDMA_WRITE, MTU);
	EXPECT(forge_receive(&p, (int)PATIENCE), "nothing comes");
	acknowledge(0);
	expect_end(IBV_WC_SUCCESS);
	side_set_patience(&b, 0, 14, 1); /* 67 ms; it was for ever, and then 3 */
	post(IBV_WR_RDMA_WRITE, MTU);
	expect_end(IBV_WC_RETRY_EXC_ERR);
	while (forge_receive(&p, BRIEFLY))
		sent++;
	EXPECT(sent == 2, "sent %u times", sent);
	NEED(side_destroy_qp(&b, 0) == 0);
}

int main(int argc, char **argv)
{
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	is_drained("SEND", IBV_WR_SEND);
	is_drained("READ", IBV_WR_RDMA_READ);
	has_another_patience();
	side_stop(&b);
	return summary();
}
