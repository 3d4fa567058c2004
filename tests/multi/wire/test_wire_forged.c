/* SPDX-License-Identifier: MIT */
/*
 * Packets that no honest peer sends, to queue pairs of another process: each has the answer that
 * IBTA volume 1, chapter 9 gives it, or none; memory and the queue pair are as they should be.
 */
#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/two_hosts.h"

#define PATIENCE  30000u /* ms */
#define BRIEFLY	  30	 /* ms in which nothing should come */
#define MTU	  1024u
#define FIRST_PSN 0xffffffu /* the second packet has 0 */
#define PEER_QPN  0x4711u
#define TARGET	  0x1000u
#define GUARD	  0x5000u
#define WORD	  0x100000u
#define LANDING	  0x200000u
#define ROOM	  512u /* bytes of a receive request */
#define TOO_LONG  ((1u << 31) + 1)

static struct side b; /* on host 1; host 0 is this process, with a socket */
static uint32_t b_qpn;

/* --- the queue pair -------------------------------------------------------------- */

static void make_connected(uint8_t dest_rd_atomic)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();

	link.dest_qpn = PEER_QPN;
	link.dgid = forge_gid;
	link.rq_psn = link.sq_psn = FIRST_PSN;
	link.mtu = IBV_MTU_1024;
	link.timeout = 19; /* 2 s: nothing is repeated by itself */
	link.retry_cnt = link.rnr_retry = 7;
	link.dest_rd_atomic = dest_rd_atomic;
	NEED(side_create_qp(&b, 0, &spec, &b_qpn) == 0);
	NEED(side_connect(&b, 0, &link) == 0);
	side_fill(&b, 0, LANDING, 1, 0);
	side_poke(&b, WORD, 100);
}

static void unmake(void)
{
	struct av_packet p;

	NEED(side_destroy_qp(&b, 0) == 0);
	while (forge_receive(&p, 0))
		;
}

/* --- requests that b answers ----------------------------------------------------- */

/* PSNs are counted from the first one. */
struct request {
	uint8_t opcode;
	int psn;
	uint32_t payload, length; /* as the RETH says it */
	enum harm harm;
	enum key key;
	unsigned int answers; /* of row.answer, before the next request is sent */
};

struct answer {
	uint8_t opcode, syndrome;
	int psn;
	uint64_t original;
};

#define DEAD (-1)

/* The usual ones; what is harmed, or a key, may follow. */
#define WRITES(op, at, bytes, said, ...)                                                         \
	{                                                                                        \
		.opcode = (op), .psn = (at), .payload = (bytes), .length = (said), ##__VA_ARGS__ \
	}
#define ASKS(op, at, said, ...)                                              \
	{                                                                    \
		.opcode = (op), .psn = (at), .length = (said), ##__VA_ARGS__ \
	}
#define ANSWER(op, code, at)                                    \
	{                                                       \
		.opcode = (op), .syndrome = (code), .psn = (at) \
	}
#define ANSWER_WORD(at, word)                                                             \
	{                                                                                 \
		.opcode = ATOMIC_ANSWER, .syndrome = ACK, .psn = (at), .original = (word) \
	}
#define REFUSAL(code, at) ANSWER(ACKNOWLEDGE, code, at)
#define ANSWERED	  .answers = 1

static const struct {
	const char *name;
	struct request request[4];
	struct answer answer[6];
	int next;      /* the PSN that is expected afterwards; DEAD: the queue pair is in ERR */
	uint64_t word; /* that the atomics are done to, afterwards */
} rows[] = {
	{"nothing wrong",
	 {WRITES(WRITE_ONLY, 0, 8, 8, ANSWERED)},
	 {ANSWER(ACKNOWLEDGE, ACK, 0)},
	 1,
	 100},
	{"not migrated",
	 {WRITES(WRITE_ONLY, 0, 8, 8, ANSWERED, .harm = MIGRATION)},
	 {ANSWER(ACKNOWLEDGE, ACK, 0)},
	 1,
	 100},
	{"transport version", {ASKS(FETCH_ADD, 0, 0, .harm = VERSION)}, {ANSWER(0, 0, 0)}, 0, 100},
	{"ICRC", {ASKS(FETCH_ADD, 0, 0, .harm = ICRC)}, {ANSWER(0, 0, 0)}, 0, 100},
	{"partition", {ASKS(FETCH_ADD, 0, 0, .harm = PKEY)}, {ANSWER(0, 0, 0)}, 0, 100},
	{"another host", {ASKS(FETCH_ADD, 0, 0, .harm = SOURCE)}, {ANSWER(0, 0, 0)}, 0, 100},
	{"another queue pair", {ASKS(FETCH_ADD, 0, 0, .harm = QPN)}, {ANSWER(0, 0, 0)}, 0, 100},
	{"another service", {WRITES(UC | WRITE_ONLY, 0, 8, 8)}, {ANSWER(0, 0, 0)}, 0, 100},
	{"ahead",
	 {WRITES(WRITE_ONLY, 5, 8, 8, ANSWERED), WRITES(WRITE_ONLY, 6, 8, 8),
	  ASKS(FETCH_ADD, 0x7ffffe, 0)},
	 {REFUSAL(SEQUENCE, 0)},
	 0,
	 100},
	{"behind",
	 {WRITES(WRITE_ONLY, -3, 8, 8, ANSWERED, .key = KEY_DEAD), ASKS(FETCH_ADD, -4, 0)},
	 {ANSWER(ACKNOWLEDGE, ACK, -1)},
	 0,
	 100},
	{"atomics come twice",
	 {ASKS(FETCH_ADD, 0, 0, ANSWERED), ASKS(FETCH_ADD, 1, 0, ANSWERED),
	  ASKS(FETCH_ADD, 0, 0, ANSWERED), ASKS(FETCH_ADD, 1, 0, ANSWERED)},
	 {ANSWER_WORD(0, 100), ANSWER_WORD(1, 105), ANSWER_WORD(0, 100), ANSWER_WORD(1, 105)},
	 2,
	 110},
	{"a READ comes twice",
	 {ASKS(READ_REQUEST, 0, 1025, .answers = 2), ASKS(READ_REQUEST, 1, 1, ANSWERED)},
	 {ANSWER(READ_FIRST, ACK, 0), ANSWER(READ_LAST, ACK, 1), ANSWER(READ_ONLY, ACK, 1)},
	 2,
	 100},
	/* Who sends it again may have had the answer long ago, and the key may be gone since. */
	{"a READ comes twice, its key is gone",
	 {ASKS(READ_REQUEST, 0, 8, ANSWERED), ASKS(READ_REQUEST, 0, 8, ANSWERED, .key = KEY_DEAD)},
	 {ANSWER(READ_ONLY, ACK, 0), REFUSAL(ACCESS, 0)},
	 1,
	 100},
	{"a READ comes twice, and announces more than any message has",
	 {ASKS(READ_REQUEST, 0, 8, ANSWERED), ASKS(READ_REQUEST, 0, TOO_LONG)},
	 {ANSWER(READ_ONLY, ACK, 0)},
	 1,
	 100},
	{"a Middle first",
	 {WRITES(WRITE_MIDDLE, 0, MTU, 0, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"a Last first", {WRITES(SEND_LAST, 0, 8, 0, ANSWERED)}, {REFUSAL(INVALID, 0)}, DEAD, 100},
	{"a First after a First",
	 {WRITES(WRITE_FIRST, 0, MTU, 2 * MTU), WRITES(WRITE_FIRST, 1, MTU, 2 * MTU, ANSWERED)},
	 {REFUSAL(INVALID, 1)},
	 DEAD,
	 100},
	{"another operation in between",
	 {WRITES(WRITE_FIRST, 0, MTU, 2 * MTU), ASKS(FETCH_ADD, 1, 0, ANSWERED)},
	 {REFUSAL(INVALID, 1)},
	 DEAD,
	 100},
	{"a WRITE goes on as a SEND",
	 {WRITES(WRITE_FIRST, 0, MTU, 2 * MTU), WRITES(SEND_LAST, 1, MTU, 0, ANSWERED)},
	 {REFUSAL(INVALID, 1)},
	 DEAD,
	 100},
	{"a First that is short",
	 {WRITES(WRITE_FIRST, 0, MTU - 4, 2 * MTU, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"an Only that is longer than the path MTU",
	 {WRITES(WRITE_ONLY, 0, MTU + 4, MTU + 4, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"an Only of another length than announced",
	 {WRITES(WRITE_ONLY, 0, 8, 12, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"a Last that is too short",
	 {WRITES(WRITE_FIRST, 0, MTU, 2 * MTU), WRITES(WRITE_LAST, 1, MTU - 1, 0, ANSWERED)},
	 {REFUSAL(INVALID, 1)},
	 DEAD,
	 100},
	{"a Last without payload",
	 {WRITES(WRITE_FIRST, 0, MTU, 2 * MTU), WRITES(WRITE_LAST, 1, 0, 0, ANSWERED)},
	 {REFUSAL(INVALID, 1)},
	 DEAD,
	 100},
	{"a Middle where the Last should be",
	 {WRITES(WRITE_FIRST, 0, MTU, 2 * MTU), WRITES(WRITE_MIDDLE, 1, MTU, 0, ANSWERED)},
	 {REFUSAL(INVALID, 1)},
	 DEAD,
	 100},
	{"an ATOMIC WRITE that announces 4 bytes",
	 {WRITES(ATOMIC_WRITE, 0, 8, 4, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"a WRITE that is longer than any message",
	 {WRITES(WRITE_FIRST, 0, MTU, TOO_LONG, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"a READ that is longer than any message",
	 {ASKS(READ_REQUEST, 0, TOO_LONG, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
	{"a READ beyond its region",
	 {ASKS(READ_REQUEST, 0, NODE_ARENA, ANSWERED)},
	 {REFUSAL(ACCESS, 0)},
	 DEAD,
	 100},
	{"a SEND that is longer than the receive request",
	 {WRITES(SEND_ONLY, 0, ROOM + 4, 0, ANSWERED)},
	 {REFUSAL(INVALID, 0)},
	 DEAD,
	 100},
};

static void send_request(const struct request *r)
{
	forge_send(b_qpn,
		   (struct av_packet){
			   .opcode = r->opcode,
			   .psn = FIRST_PSN + (uint32_t)r->psn,
			   .ack_request = r->opcode != WRITE_FIRST,
			   .addr = b.info.base[r->key] + (r->opcode == FETCH_ADD ? WORD : TARGET),
			   .rkey = b.info.key[r->key],
			   .length = r->length,
			   .swap_add = 5,
			   .payload_bytes = r->payload,
		   },
		   r->harm);
}

static bool expect_answer(const struct answer *want)
{
	uint32_t psn = (FIRST_PSN + (uint32_t)want->psn) & AV_PSN_MASK;
	struct av_packet p;

	if (!EXPECT(forge_receive(&p, PATIENCE), "no answer"))
		return false;
	return EXPECT(p.opcode == want->opcode && p.psn == psn && p.dest_qpn == PEER_QPN &&
			      (want->syndrome == ACK ? p.syndrome <= ACK
						     : p.syndrome == want->syndrome) &&
			      p.original == want->original,
		      "opcode %#x, PSN %#x, syndrome %#x, original value %lu", p.opcode, p.psn,
		      p.syndrome, p.original);
}

/* All that was sent before has met its end: this one is answered, or the queue pair has failed. */
static void expect_next(int next)
{
	if (next == DEAD) {
		EXPECT(side_state(&b, 0) == IBV_QPS_ERR, "state %d", side_state(&b, 0));
		return;
	}
	send_request(&(struct request){.opcode = WRITE_ONLY, .psn = next});
	expect_answer(&(struct answer)ANSWER(ACKNOWLEDGE, ACK, next));
	EXPECT(side_state(&b, 0) == IBV_QPS_RTS, "state %d", side_state(&b, 0));
}

static void requests(size_t i)
{
	const struct answer *answer = rows[i].answer;
	struct ibv_wc wc;

	row("%s", rows[i].name);
	make_connected(2);
	side_recv_one(&b, 0, 1, LANDING, ROOM);
	for (size_t k = 0; k < COUNT_OF(rows[i].request) && rows[i].request[k].opcode; k++) {
		send_request(&rows[i].request[k]);
		for (unsigned int n = 0; n < rows[i].request[k].answers; n++)
			if (!expect_answer(answer++))
				break;
	}
	expect_next(rows[i].next);
	EXPECT(side_peek(&b, WORD) == rows[i].word, "the word is %lu", side_peek(&b, WORD));
	EXPECT(side_check(&b, TARGET + 2 * MTU, GUARD, 1, TARGET + 2 * MTU) == -1, "bytes behind");
	if (rows[i].next == DEAD)
		EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.status != IBV_WC_SUCCESS,
		       "the receive request, status %d", wc.status);
	unmake();
}

/* While the queue pair is drained, its program lets the peer have more atomics under way. */
static void more_atomics(void)
{
	struct ibv_qp_attr attr = {.max_dest_rd_atomic = 3};

	row("atomics come twice, and more of them than at first");
	make_connected(1);
	send_request(&(struct request)ASKS(FETCH_ADD, 0, 0));
	expect_answer(&(struct answer)ANSWER_WORD(0, 100));
	EXPECT(side_set_state(&b, 0, IBV_QPS_SQD) == 0, "SQD");
	EXPECT(side_modify(&b, 0, &attr, IBV_QP_MAX_DEST_RD_ATOMIC) == 0, "max_dest_rd_atomic");
	EXPECT(side_set_state(&b, 0, IBV_QPS_RTS) == 0, "RTS");
	for (int copy = 0; copy < 2; copy++)
		for (int i = 1 - copy; i < 3; i++) {
			send_request(&(struct request)ASKS(FETCH_ADD, i, 0));
			expect_answer(&(struct answer)ANSWER_WORD(i, 100 + 5 * (uint64_t)i));
		}
	expect_next(3);
	EXPECT(side_peek(&b, WORD) == 115, "the word is %lu", side_peek(&b, WORD));
	unmake();
}

/* --- answers to b's requests ----------------------------------------------------- */

struct reply {
	uint8_t opcode, syndrome;
	int psn;
	uint32_t payload;
};

#define REPLY(op, code, at, bytes)                                                  \
	{                                                                           \
		.opcode = (op), .syndrome = (code), .psn = (at), .payload = (bytes) \
	}

/* Nothing is done before the last reply. */
static const struct {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t bytes;
	struct reply reply[5];
	enum ibv_wc_status status;
} replies[] = {
	{"an acknowledgement of what was not sent",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(ACKNOWLEDGE, ACK, 1, 0), REPLY(ACKNOWLEDGE, ACK, 0x7ffff0, 0),
	  REPLY(ACKNOWLEDGE, ACK, 0, 0)},
	 IBV_WC_SUCCESS},
	{"an acknowledgement of what is long done",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(ACKNOWLEDGE, ACK, -1, 0), REPLY(ACKNOWLEDGE, INVALID, -1, 0),
	  REPLY(ACKNOWLEDGE, ACK, 0, 0)},
	 IBV_WC_SUCCESS},
	{"syndromes that are reserved",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(ACKNOWLEDGE, 0x40, 0, 0), REPLY(ACKNOWLEDGE, 0x7f, 0, 0),
	  REPLY(ACKNOWLEDGE, 0x80, 0, 0), REPLY(ACKNOWLEDGE, 0xff, 0, 0),
	  REPLY(ACKNOWLEDGE, ACK, 0, 0)},
	 IBV_WC_SUCCESS},
	{"an invalid request",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(ACKNOWLEDGE, INVALID, 0, 0)},
	 IBV_WC_REM_INV_REQ_ERR},
	{"an access that is denied",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(ACKNOWLEDGE, ACCESS, 0, 0)},
	 IBV_WC_REM_ACCESS_ERR},
	{"an operation that has failed",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(ACKNOWLEDGE, OPERATION, 0, 0)},
	 IBV_WC_REM_OP_ERR},
	{"another operation's answer",
	 IBV_WR_RDMA_WRITE,
	 8,
	 {REPLY(READ_ONLY, ACK, 0, 8), REPLY(ATOMIC_ANSWER, ACK, 0, 0),
	  REPLY(ACKNOWLEDGE, ACK, 0, 0)},
	 IBV_WC_SUCCESS},
	{"an answer of another length",
	 IBV_WR_RDMA_READ,
	 8,
	 {REPLY(READ_ONLY, ACK, 0, 4), REPLY(READ_ONLY, ACK, 0, 12), REPLY(READ_ONLY, ACK, 0, 0),
	  REPLY(READ_FIRST, ACK, 0, MTU), REPLY(READ_ONLY, ACK, 0, 8)},
	 IBV_WC_SUCCESS},
	{"an answer that is a refusal",
	 IBV_WR_RDMA_READ,
	 8,
	 {REPLY(READ_ONLY, ACCESS, 0, 8), REPLY(READ_ONLY, RNR_NAK, 0, 8),
	  REPLY(READ_ONLY, ACK, 0, 8)},
	 IBV_WC_SUCCESS},
	{"an atomic's answer that is a refusal",
	 IBV_WR_ATOMIC_FETCH_AND_ADD,
	 8,
	 {REPLY(ATOMIC_ANSWER, ACCESS, 0, 0), REPLY(READ_ONLY, ACK, 0, 8),
	  REPLY(ATOMIC_ANSWER, ACK, 0, 0)},
	 IBV_WC_SUCCESS},
	{"an answer that is too long",
	 IBV_WR_RDMA_READ,
	 MTU + 8,
	 {REPLY(READ_FIRST, ACK, 0, MTU), REPLY(READ_LAST, ACK, 1, MTU),
	  REPLY(READ_LAST, ACK, 2, 8), REPLY(READ_LAST, ACK, 1, 8)},
	 IBV_WC_SUCCESS},
};

static void post(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_send s = side_rdma(op, side_sge(&b, KEY_FULL, LANDING, bytes), 0x1000, 7);
	struct av_packet p;

	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "post_send");
	EXPECT(forge_receive(&p, PATIENCE) && p.psn == FIRST_PSN, "the request");
	while (forge_receive(&p, BRIEFLY))
		;
}

static void reply(const struct reply *r)
{
	forge_send(b_qpn,
		   (struct av_packet){.opcode = r->opcode,
				      .psn = FIRST_PSN + (uint32_t)r->psn,
				      .syndrome = r->syndrome,
				      .payload_bytes = r->payload},
		   NONE);
}

static void answers(size_t i)
{
	size_t last = 0;
	struct ibv_wc wc;

	row("%s", replies[i].name);
	make_connected(2);
	side_fill(&b, LANDING, 2 * GUARD, 1, 0);
	post(replies[i].op, replies[i].bytes);
	while (last + 1 < COUNT_OF(replies[i].reply) && replies[i].reply[last + 1].opcode)
		reply(&replies[i].reply[last++]);
	EXPECT(last == 0 || side_poll(&b, 0, 1, BRIEFLY, &wc) == 0, "done too early, status %d",
	       wc.status);
	reply(&replies[i].reply[last]);
	EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == replies[i].status,
	       "status %d", wc.status);
	EXPECT(side_check(&b, LANDING + replies[i].bytes, GUARD, 1, replies[i].bytes) == -1,
	       "bytes behind");
	unmake();
}

int main(int argc, char **argv)
{
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		requests(i);
	more_atomics();
	for (size_t i = 0; i < COUNT_OF(replies); i++)
		answers(i);
	side_stop(&b);
	return summary();
}
