/* SPDX-License-Identifier: MIT */
/*
 * Packets that no honest peer sends, to unreliable queue pairs and to shared receive queues: what
 * must not be taken is not, and what comes behind it is.
 */

#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/to_rts.h"
#include "lib/two_hosts.h"

#define PATIENCE 30000u /* ms */
#define BRIEFLY	 100	/* ms in which nothing should come */
#define MTU	 1024u
#define PEER_QPN 0x4711u
#define QKEY	 0x111u
#define GRH	 40u
#define ROOM	 0x2000u /* bytes of a receive request */
#define RESTS	 77u	 /* what is in buffers that nothing comes to */

static struct side b; /* on host 1; host 0 is this process, with a socket */

/* --- in b's process -------------------------------------------------------------- */

enum job { DATAGRAMS, UNRELIABLE, JOIN, SHARED, SENDER, QUEUE, STATE, END };

static struct {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq[2];
	struct ibv_qp *qp;
} mine;

static struct ibv_sge buffer(struct node *n, unsigned int i)
{
	return (struct ibv_sge){(uintptr_t)n->arena + i * ROOM, ROOM, n->mr[KEY_FULL]->lkey};
}

static uint64_t connected(void)
{
	struct ibv_qp_attr attr = connect_attr(PEER_QPN, &forge_gid);

	attr.path_mtu = IBV_MTU_1024;
	attr.qkey = QKEY;
	attr.rq_psn = 0;
	NEED(connect_qp(mine.qp, attr) == 0);
	return mine.qp->qp_num;
}

static uint64_t make_unreliable(struct node *n, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0], .recv_cq = n->cq[1], .cap = {1, 4, 1, 1, 0}, .qp_type = type};

	NEED(mine.qp = ibv_create_qp(n->pd, &init));
	(void)connected();
	for (unsigned int i = 0; i < 2; i++) {
		struct ibv_sge sge = buffer(n, i);
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		NEED(ibv_post_recv(mine.qp, &wr, &bad) == 0);
	}
	return mine.qp->qp_num;
}

/* Return: number of another queue pair of this host */
static uint64_t join(struct node *n)
{
	NEED(ibv_attach_mcast(mine.qp, &forge_group, 0) == 0);
	NEED(node_create_qp(n, 0, &(struct node_qp_spec){.cap = {1, 1, 1, 1, 0}}) == 0);
	return n->qp[0]->qp_num;
}

static void make_srq(struct node *n, unsigned int i)
{
	struct ibv_srq_init_attr_ex init = node_xrc_srq(4, n->pd, mine.xrcd, n->cq[1]);
	struct ibv_sge sge = buffer(n, i);
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	NEED(mine.srq[i] = ibv_create_srq_ex(n->ctx, &init));
	NEED(ibv_post_srq_recv(mine.srq[i], &wr, &bad) == 0);
}

static uint64_t make_shared(struct node *n)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};

	NEED(mine.xrcd = node_open_xrcd(n->ctx));
	make_srq(n, 0);
	make_srq(n, 1);
	init.xrcd = mine.xrcd;
	NEED(mine.qp = ibv_create_qp_ex(n->ctx, &init));
	return connected();
}

static uint64_t make_sender(struct node *n)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_SEND,
					   .send_cq = n->cq[0],
					   .cap = {1, 0, 1, 0, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = n->pd};

	NEED(mine.qp = ibv_create_qp_ex(n->ctx, &init));
	return connected();
}

static uint64_t queue_number(uint64_t i)
{
	uint32_t number;

	NEED(ibv_get_srq_num(mine.srq[i], &number) == 0);
	return number;
}

static uint64_t state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(ibv_query_qp(mine.qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

static uint64_t end(void)
{
	(void)ibv_detach_mcast(mine.qp, &forge_group, 0); /* if it has joined */
	NEED(ibv_destroy_qp(mine.qp) == 0);
	for (unsigned int i = 0; mine.xrcd && i < 2; i++)
		NEED(ibv_destroy_srq(mine.srq[i]) == 0);
	NEED(!mine.xrcd || ibv_close_xrcd(mine.xrcd) == 0);
	mine.xrcd = NULL;
	return 0;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case DATAGRAMS:
		return make_unreliable(n, IBV_QPT_UD);
	case UNRELIABLE:
		return make_unreliable(n, IBV_QPT_UC);
	case JOIN:
		return join(n);
	case SHARED:
		return make_shared(n);
	case SENDER:
		return make_sender(n);
	case QUEUE:
		return queue_number(job->arg[1]);
	case STATE:
		return state();
	case END:
		return end();
	}
	return UINT64_MAX;
}

static uint32_t ask(enum job job, uint64_t arg)
{
	side_begin(&b, &(struct side_job){{job, arg}});
	return (uint32_t)side_end(&b);
}

/* --- datagrams ------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t qkey;
	enum harm harm;
} datagrams[] = {
	{"nothing wrong", QKEY, NONE},
	{"Q_Key", QKEY + 1, NONE},
	{"ICRC", QKEY, ICRC},
	{"transport version", QKEY, VERSION},
	{"another queue pair", QKEY, QPN},
	{"partition", QKEY, PKEY},
};

/* One of 12 bytes comes behind it. */
static void datagram(size_t i)
{
	struct av_packet p = {.opcode = UD | SEND_ONLY,
			      .qkey = datagrams[i].qkey,
			      .src_qpn = PEER_QPN,
			      .payload_bytes = 8};
	uint32_t qpn = ask(DATAGRAMS, 0), taken = i == 0 ? 2 : 1;
	struct ibv_wc wc[2];

	row("a datagram: %s", datagrams[i].name);
	forge_send(qpn, p, datagrams[i].harm);
	p.qkey = QKEY;
	p.payload_bytes = 12;
	forge_send(qpn, p, NONE);
	if (EXPECT(side_poll(&b, 1, (int)taken, PATIENCE, wc) == (int)taken, "completions"))
		EXPECT(wc[taken - 1].byte_len == GRH + 12, "%u bytes", wc[taken - 1].byte_len);
	(void)ask(END, 0);
}

/* Numbers of queue pairs are of their host: another's may be the same. */
static void same_numbers(void)
{
	uint32_t member = ask(DATAGRAMS, 0), other = ask(JOIN, 0);
	struct av_packet p = {.opcode = UD | SEND_ONLY, .qkey = QKEY, .payload_bytes = 8};
	struct ibv_wc wc[2];

	row("a group's datagrams from numbers that this host has, too");
	p.src_qpn = member;
	forge_send_to_group(p);
	p.src_qpn = other;
	forge_send_to_group(p);
	EXPECT(side_poll(&b, 1, 2, PATIENCE, wc) == 2 && wc[0].src_qp == member &&
		       wc[1].src_qp == other,
	       "completions");
	EXPECT(side_destroy_qp(&b, 0) == 0, "ibv_destroy_qp");
	(void)ask(END, 0);
}

/* --- unreliable connections ------------------------------------------------------ */

/* A message of one or two packets, of which something is wrong. */
static const struct {
	const char *name;
	struct forged_uc {
		uint8_t opcode;
		uint32_t psn, payload, length;
		enum key key;
	} packet[2];
} lost[] = {
	{"a Last first", {{UC | SEND_LAST, 0, 8, 0, KEY_FULL}}},
	{"a First that is short", {{UC | SEND_FIRST, 0, MTU - 4, 0, KEY_FULL}}},
	{"longer than the path MTU", {{UC | SEND_ONLY, 0, MTU + 4, 0, KEY_FULL}}},
	{"a gap", {{UC | SEND_FIRST, 0, MTU, 0, KEY_FULL}, {UC | SEND_LAST, 2, 8, 0, KEY_FULL}}},
	{"a WRITE goes on as a SEND",
	 {{UC | WRITE_FIRST, 0, MTU, MTU + 8, KEY_FULL}, {UC | SEND_LAST, 1, 8, 0, KEY_FULL}}},
	{"another length than announced", {{UC | WRITE_ONLY, 0, 8, 12, KEY_FULL}}},
	{"longer than any message", {{UC | WRITE_FIRST, 0, MTU, (1u << 31) + 1, KEY_FULL}}},
	{"longer than announced",
	 {{UC | WRITE_FIRST, 0, MTU, MTU + 8, KEY_FULL}, {UC | WRITE_LAST, 1, 12, 0, KEY_FULL}}},
	{"a key that is not there", {{UC | WRITE_ONLY, 0, 8, 8, KEY_WRONG}}},
	{"a READ", {{READ_REQUEST, 0, 0, 8, KEY_FULL}}},
	{"an atomic", {{FETCH_ADD, 0, 0, 0, KEY_FULL}}},
	{"an acknowledgement", {{ACKNOWLEDGE, 0, 0, 0, KEY_FULL}}},
};

/* Nobody answers it, nothing fails, and what comes behind it is received. */
static void lose(size_t i)
{
	uint32_t qpn = ask(UNRELIABLE, 0);
	struct av_packet p = {.opcode = UC | SEND_ONLY, .psn = 7, .payload_bytes = 12};
	struct ibv_wc wc;

	row("an unreliable connection: %s", lost[i].name);
	side_fill(&b, ROOM + MTU, ROOM, RESTS, 0);
	for (size_t k = 0; k < 2 && lost[i].packet[k].opcode; k++) {
		const struct forged_uc *f = &lost[i].packet[k];

		forge_send(qpn,
			   (struct av_packet){.opcode = f->opcode,
					      .psn = f->psn,
					      .addr = b.info.base[f->key] + ROOM,
					      .rkey = b.info.key[f->key],
					      .length = f->length,
					      .payload_bytes = f->payload},
			   NONE);
	}
	forge_send(qpn, p, NONE);
	EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
		       wc.wr_id == 0 && wc.byte_len == 12,
	       "receive %lu, status %d, %u bytes", wc.wr_id, wc.status, wc.byte_len);
	EXPECT(ask(STATE, 0) == IBV_QPS_RTS, "state");
	EXPECT(side_check(&b, ROOM + MTU, ROOM, RESTS, 0) == -1, "bytes behind");
	EXPECT(!forge_receive(&p, 0), "an answer, opcode %#x", p.opcode);
	(void)ask(END, 0);
}

/* --- shared receive queues ------------------------------------------------------- */

/* A message goes on at another queue than it has begun at. */
static void other_queue(void)
{
	uint32_t qpn = ask(SHARED, 0);
	struct av_packet p = {.opcode = XRC | SEND_FIRST,
			      .srqn = ask(QUEUE, 0),
			      .ack_request = true,
			      .payload_bytes = MTU};
	struct ibv_wc wc;

	row("a message that goes on at another shared receive queue");
	side_fill(&b, ROOM, ROOM, RESTS, 0);
	forge_send(qpn, p, NONE);
	EXPECT(forge_receive(&p, (int)PATIENCE) && p.syndrome <= ACK, "syndrome %#x", p.syndrome);
	p = (struct av_packet){.opcode = XRC | SEND_LAST,
			       .srqn = ask(QUEUE, 1),
			       .psn = 1,
			       .ack_request = true,
			       .payload_bytes = 8};
	forge_send(qpn, p, NONE);
	EXPECT(forge_receive(&p, (int)PATIENCE) && p.syndrome == INVALID, "syndrome %#x",
	       p.syndrome);
	EXPECT(ask(STATE, 0) == IBV_QPS_ERR, "state");
	EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.wr_id == 0 &&
		       wc.status == IBV_WC_WR_FLUSH_ERR,
	       "receive %lu, status %d", wc.wr_id, wc.status);
	EXPECT(side_poll(&b, 1, 1, 20, &wc) == 0, "receive %lu, status %d", wc.wr_id, wc.status);
	EXPECT(side_check(&b, ROOM, ROOM, RESTS, 0) == -1, "the other queue's buffer");
	(void)ask(END, 0);
}

/* The sending end of XRC has no responder: as on one host, nobody is there. */
static void no_responder(void)
{
	struct av_packet p = {.opcode = XRC | WRITE_ONLY,
			      .ack_request = true,
			      .addr = b.info.base[KEY_FULL],
			      .rkey = b.info.key[KEY_FULL],
			      .length = 8,
			      .payload_bytes = 8};
	uint32_t qpn = ask(SENDER, 0);

	row("requests to the sending end of XRC");
	side_fill(&b, 0, ROOM, RESTS, 0);
	forge_send(qpn, p, NONE);
	p.opcode = XRC | SEND_ONLY;
	forge_send(qpn, p, NONE);
	EXPECT(!forge_receive(&p, BRIEFLY), "syndrome %#x", p.syndrome);
	EXPECT(ask(STATE, 0) == IBV_QPS_RTS, "state");
	EXPECT(side_check(&b, 0, ROOM, RESTS, 0) == -1, "memory");
	(void)ask(END, 0);
}

int main(int argc, char **argv)
{
	side_work = work;
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	for (size_t i = 0; i < COUNT_OF(datagrams); i++)
		datagram(i);
	same_numbers();
	for (size_t i = 0; i < COUNT_OF(lost); i++)
		lose(i);
	other_queue();
	no_responder();
	side_stop(&b);
	return summary();
}
