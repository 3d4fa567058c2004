/* SPDX-License-Identifier: MIT */
/*
 * Requests of the common kind, and the same ones in an unusual form: nothing a program can see
 * differs.
 *
 * Each row is executed twice by fresh queue pairs, once as it stands and once with a second element
 * of no bytes in the request and in the receive, which branches off the common case. What comes of
 * both is compared field by field: completions, memory, PSNs, states, events. Between two
 * processes, between two contexts of one process, within one context, and of a queue pair with
 * itself.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/sandbox.h"

#define LOCAL_AT  0x4000u /* offsets in the arenas */
#define REMOTE_AT 0x18000u
#define RECV_AT	  0x2c000u
#define WATCHED	  0x40000u
#define PATIENCE  20000u
#define LOOK_MS	  0u /* who completes the request has raised the events before */

enum armed { NOT_ARMED, ARMED, ARMED_SOLICITED };

struct lane_row {
	const char *name;
	enum ibv_wr_opcode op;
	unsigned int flags;
	uint32_t bytes;
	enum key lkey, rkey, recv_key; /* KEY_FULL is 0 */
	int64_t local_by, remote_by;
	uint32_t recv_bytes; /* 0: as many as are sent */
	uint32_t psn;	     /* 0: the default */
	unsigned int denied; /* access flags the responder's queue pair lacks */
	bool no_receive, no_rd_atomic, no_dest_rd_atomic, responder_in_rtr;
	enum armed armed; /* the receiver's CQ */
};

static const struct lane_row rows[] = {
	{.name = "8 bytes", .op = SEND, .bytes = 8},
	{.name = "1 byte", .op = SEND, .bytes = 1},
	{.name = "what the completion carries", .op = SEND, .bytes = 64},
	{.name = "a byte more", .op = SEND, .bytes = 65},
	{.name = "4 KiB", .op = SEND, .bytes = 4096},
	{.name = "what is staged", .op = SEND, .bytes = 16384},
	{.name = "more", .op = SEND, .bytes = 70000},
	{.name = "nothing", .op = SEND, .bytes = 0, .recv_bytes = 64},
	{.name = "inline", .op = SEND, .bytes = 100, .flags = IBV_SEND_INLINE},
	{.name = "solicited", .op = SEND, .bytes = 8, .flags = IBV_SEND_SOLICITED},
	{.name = "armed", .op = SEND, .bytes = 8, .armed = ARMED},
	{.name = "armed, 4 KiB", .op = SEND, .bytes = 4096, .armed = ARMED},
	{.name = "armed for solicited ones", .op = SEND, .bytes = 8, .armed = ARMED_SOLICITED},
	{.name = "solicited, armed for those",
	 .op = SEND,
	 .bytes = 8,
	 .flags = IBV_SEND_SOLICITED,
	 .armed = ARMED_SOLICITED},
	{.name = "immediate", .op = SENDI, .bytes = 8},
	{.name = "immediate, 5000 bytes", .op = SENDI, .bytes = 5000},
	{.name = "fits just", .op = SEND, .bytes = 64, .recv_bytes = 64},
	{.name = "does not fit", .op = SEND, .bytes = 64, .recv_bytes = 63},
	{.name = "4 KiB that do not fit", .op = SEND, .bytes = 4096, .recv_bytes = 4095},
	{.name = "no receive", .op = SEND, .bytes = 8, .no_receive = true},
	{.name = "receive of a dead key", .op = SEND, .bytes = 8, .recv_key = KEY_DEAD},
	{.name = "receive of a dead key, 4 KiB", .op = SEND, .bytes = 4096, .recv_key = KEY_DEAD},
	{.name = "receive that may not be written",
	 .op = SEND,
	 .bytes = 8,
	 .recv_key = KEY_READ_ONLY},
	{.name = "receive of another domain", .op = SEND, .bytes = 8, .recv_key = KEY_OTHER_PD},
	{.name = "receive by offset", .op = SEND, .bytes = 4096, .recv_key = KEY_ZERO_BASED},
	{.name = "dead lkey", .op = SEND, .bytes = 8, .lkey = KEY_DEAD},
	{.name = "lkey by offset", .op = SEND, .bytes = 8, .lkey = KEY_ZERO_BASED},
	{.name = "memory that is gone",
	 .op = SEND,
	 .bytes = 8,
	 .lkey = KEY_GONE,
	 .local_by = -(int64_t)LOCAL_AT},
	{.name = "responder in RTR", .op = SEND, .bytes = 8, .responder_in_rtr = true},
	{.name = "the last PSN", .op = SEND, .bytes = 8, .psn = 0xffffff},
	{.name = "over the last PSN", .op = SEND, .bytes = 5000, .psn = 0xfffffe},
	{.name = "8 bytes", .op = WRITE, .bytes = 8},
	{.name = "4 KiB", .op = WRITE, .bytes = 4096},
	{.name = "70000 bytes", .op = WRITE, .bytes = 70000},
	{.name = "nothing", .op = WRITE, .bytes = 0},
	{.name = "nothing, by a dead key", .op = WRITE, .bytes = 0, .rkey = KEY_DEAD},
	{.name = "inline", .op = WRITE, .bytes = 100, .flags = IBV_SEND_INLINE},
	{.name = "source that may only be read", .op = WRITE, .bytes = 100, .lkey = KEY_READ_ONLY},
	{.name = "address of one's own", .op = WRITE, .bytes = 100, .rkey = KEY_IOVA},
	{.name = "dead rkey", .op = WRITE, .bytes = 100, .rkey = KEY_DEAD},
	{.name = "dead lkey", .op = WRITE, .bytes = 100, .lkey = KEY_DEAD},
	{.name = "rkey of another domain", .op = WRITE, .bytes = 100, .rkey = KEY_OTHER_PD},
	{.name = "rkey that may not be written", .op = WRITE, .bytes = 100, .rkey = KEY_NO_WRITE},
	{.name = "not permitted", .op = WRITE, .bytes = 100, .denied = IBV_ACCESS_REMOTE_WRITE},
	{.name = "beyond the region",
	 .op = WRITE,
	 .bytes = 100,
	 .remote_by = NODE_ARENA - REMOTE_AT - 99},
	{.name = "responder in RTR", .op = WRITE, .bytes = 8, .responder_in_rtr = true},
	{.name = "over the last PSN", .op = WRITE, .bytes = 5000, .psn = 0xfffffe},
	{.name = "8 bytes", .op = READ, .bytes = 8},
	{.name = "4 KiB", .op = READ, .bytes = 4096},
	{.name = "70000 bytes", .op = READ, .bytes = 70000},
	{.name = "nothing", .op = READ, .bytes = 0},
	{.name = "dead rkey", .op = READ, .bytes = 100, .rkey = KEY_DEAD},
	{.name = "rkey that may not be read", .op = READ, .bytes = 100, .rkey = KEY_NO_READ},
	{.name = "lkey that may not be written", .op = READ, .bytes = 100, .lkey = KEY_READ_ONLY},
	{.name = "not permitted", .op = READ, .bytes = 100, .denied = IBV_ACCESS_REMOTE_READ},
	{.name = "none may be under way", .op = READ, .bytes = 100, .no_rd_atomic = true},
	{.name = "none may arrive", .op = READ, .bytes = 100, .no_dest_rd_atomic = true},
	{.name = "over the last PSN", .op = READ, .bytes = 5000, .psn = 0xfffffe},
	{.name = "the word", .op = FAA, .bytes = 8},
	{.name = "the word", .op = CAS, .bytes = 8},
	{.name = "not aligned", .op = FAA, .bytes = 8, .remote_by = 4},
	{.name = "answer not aligned", .op = FAA, .bytes = 8, .local_by = 3},
	{.name = "4 bytes", .op = FAA, .bytes = 4},
	{.name = "dead rkey", .op = CAS, .bytes = 8, .rkey = KEY_DEAD},
	{.name = "dead lkey", .op = FAA, .bytes = 8, .lkey = KEY_DEAD},
	{.name = "lkey that may not be written", .op = FAA, .bytes = 8, .lkey = KEY_READ_ONLY},
	{.name = "rkey without atomics", .op = FAA, .bytes = 8, .rkey = KEY_NO_ATOMIC},
	{.name = "not permitted", .op = CAS, .bytes = 8, .denied = IBV_ACCESS_REMOTE_ATOMIC},
	{.name = "none may be under way", .op = FAA, .bytes = 8, .no_rd_atomic = true},
	{.name = "none may arrive", .op = CAS, .bytes = 8, .no_dest_rd_atomic = true},
	{.name = "by an address of one's own", .op = FAA, .bytes = 8, .rkey = KEY_IOVA},
};

/* All that can be seen of one end afterwards. */
struct end_seen {
	int completions;
	struct ibv_wc wc[3];
	enum ibv_qp_state state;
	uint32_t sq_psn, rq_psn;
	struct node_event event;
	int comp_event;
};

struct seen {
	struct end_seen requester, responder;
	int64_t message;	/* where the payload differs from what was sent, -1: nowhere */
	int64_t source, target; /* where the arenas differ from what was there before */
	uint64_t word, answer;	/* of an atomic */
};

static struct side a, b;
static struct side *to; /* b, or a itself */
static int to_qp;
static const char *mode;

static void connect_row(const struct lane_row *r)
{
	struct node_link la = link_default(), lb = link_default();

	la.rnr_retry = 1;
	la.rd_atomic = r->no_rd_atomic ? 0 : 4;
	lb.dest_rd_atomic = r->no_dest_rd_atomic ? 0 : 4;
	lb.access &= ~r->denied;
	la.access &= ~r->denied;
	if (to_qp == 0 && to == &a) /* one queue pair is both */
		la.dest_rd_atomic = lb.dest_rd_atomic, lb.rd_atomic = la.rd_atomic,
		lb.rnr_retry = 1;
	if (r->psn)
		la.sq_psn = la.rq_psn = lb.sq_psn = lb.rq_psn = r->psn;
	if (r->responder_in_rtr && !(to_qp == 0 && to == &a))
		lb.to = IBV_QPS_RTR;
	pair_create(&a, 0, to, to_qp, NULL);
	pair_connect(&a, 0, &la, to, to_qp, &lb);
}

static void post_receive(const struct lane_row *r, bool direct)
{
	uint32_t bytes = r->recv_bytes ? r->recv_bytes : r->bytes;
	struct node_recv list = {
		.wr_id = 11,
		.num_sge = direct ? 2 : 1,
		.sge = {side_sge(to, r->recv_key, RECV_AT, bytes),
			side_sge(to, r->recv_key, RECV_AT, 0)},
	};

	if (request_receives(r->op) && !r->no_receive)
		EXPECT(side_post_recv(to, to_qp, &list, 1).ret == 0, "post_recv");
}

static void post_request(const struct lane_row *r, bool direct)
{
	const struct request request = {
		.op = r->op,
		.flags = IBV_SEND_SIGNALED | r->flags,
		.bytes = r->bytes,
		.lkey = r->lkey,
		.rkey = r->rkey,
		.local_at = LOCAL_AT + (uint64_t)r->local_by,
		.remote_at = REMOTE_AT + (uint64_t)r->remote_by,
	};
	struct node_send s = request_make(&a, to, &request);

	if (direct) {
		s.flags &= ~(unsigned int)IBV_SEND_INLINE; /* the lane does not mind how many
							      elements that was */
		s.sge[s.num_sge++] = side_sge(&a, r->lkey, LOCAL_AT + (uint64_t)r->local_by, 0);
	}
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
}

static void look_at(struct side *s, int qp, int cq, int want, unsigned int ms,
		    struct end_seen *seen)
{
	struct node_psns psns;

	seen->completions = side_poll(s, cq, want, ms, seen->wc);
	psns = side_psns(s, qp);
	seen->sq_psn = psns.sq;
	seen->rq_psn = psns.rq;
	seen->state = side_state(s, qp);
	seen->event = side_async(s, LOOK_MS);
}

static void look_at_memory(const struct lane_row *r, struct seen *seen)
{
	uint64_t target_seed = to == &a ? 1 : 2;

	if (r->op == READ)
		seen->message = side_check(&a, LOCAL_AT, r->bytes, target_seed, REMOTE_AT);
	else
		seen->message = side_check(to, request_receives(r->op) ? RECV_AT : REMOTE_AT,
					   r->bytes, 1, LOCAL_AT);
	seen->source = side_check(&a, 0, WATCHED, 1, 0);
	seen->target = side_check(to, 0, WATCHED, target_seed, 0);
	if (request_is_atomic(r->op)) {
		seen->word = side_peek(to, REMOTE_AT);
		seen->answer =
			side_peek(&a, LOCAL_AT + (uint64_t)(r->local_by > 0 ? r->local_by : 0));
	}
}

static void run(const struct lane_row *r, bool direct, struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	side_fill(&a, 0, WATCHED, 1, 0);
	if (to != &a)
		side_fill(to, 0, WATCHED, 2, 0);
	if (request_is_atomic(r->op))
		side_poke(to, REMOTE_AT, REQUEST_GIVEN);
	connect_row(r);
	post_receive(r, direct);
	if (r->armed != NOT_ARMED)
		side_arm(to, 1, r->armed == ARMED_SOLICITED);
	post_request(r, direct);
	look_at(&a, 0, 0, 1, PATIENCE, &seen->requester);
	seen->responder.comp_event = r->armed != NOT_ARMED ? side_comp_event(to, 200) : -1;
	look_at(to, to_qp, 1, 1, 0, &seen->responder); /* it is complete before the request is */
	look_at_memory(r, seen);
	pair_destroy(&a, 0, to, to_qp);
}

#define SAME(field)                                                                          \
	EXPECT(x->field == d->field, "%s: " #field " is %ld, and %ld in the other way", who, \
	       (long)x->field, (long)d->field)

static void compare_wc(const char *who, const struct ibv_wc *x, const struct ibv_wc *d)
{
	SAME(wr_id);
	SAME(status);
	if (x->status != IBV_WC_SUCCESS)
		return;
	SAME(opcode);
	SAME(vendor_err);
	SAME(byte_len);
	SAME(wc_flags);
	SAME(imm_data);
	SAME(pkey_index);
	SAME(slid);
	SAME(sl);
	SAME(dlid_path_bits);
}

static void compare_ends(const char *who, const struct end_seen *x, const struct end_seen *d)
{
	SAME(completions);
	SAME(state);
	SAME(sq_psn);
	SAME(rq_psn);
	SAME(event.any);
	SAME(event.type);
	SAME(event.qp);
	SAME(comp_event);
	for (int i = 0; i < x->completions && i < d->completions; i++)
		compare_wc(who, &x->wc[i], &d->wc[i]);
}

static void compare(const struct seen *x, const struct seen *d)
{
	const char *who = "memory";

	compare_ends("requester", &x->requester, &d->requester);
	compare_ends("responder", &x->responder, &d->responder);
	SAME(message);
	SAME(source);
	SAME(target);
	SAME(word);
	SAME(answer);
}

/* And it is what was asked for. */
static void expect_done(const struct lane_row *r, const struct seen *x)
{
	if (!EXPECT(x->requester.completions == 1, "the request does not complete") ||
	    x->requester.wc[0].status != IBV_WC_SUCCESS)
		return;
	if (request_is_atomic(r->op))
		EXPECT(x->word == (r->op == FAA ? 2 * REQUEST_GIVEN : REQUEST_SWAPPED) &&
			       x->answer == REQUEST_GIVEN,
		       "word %lu, answer %lu", x->word, x->answer);
	else
		EXPECT(x->message == -1, "byte %ld is not what was sent", (long)x->message);
}

static void run_rows(void)
{
	struct seen express, direct;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("[%s] %d, %s", mode, (int)rows[i].op, rows[i].name);
		run(&rows[i], false, &express);
		run(&rows[i], true, &direct);
		expect_done(&rows[i], &express);
		compare(&express, &direct);
	}
}

/* --- source and target overlap --------------------------------------------------- */

static const struct {
	uint32_t bytes;
	int64_t by; /* the target is so much behind the source */
} overlaps[] = {{16, 8},	  {100, 1},  {4096, 64},   {20000, 8}, {200000, 100},
		{200000, 199999}, {100, -1}, {20000, -64}, {4096, 0},  {4096, 4096}};

/* What arrives is what was there before, whatever the order in which bytes move. */
static void overlap_row(size_t i, enum ibv_wr_opcode op)
{
	uint64_t from = 0x100000, at = from + (uint64_t)overlaps[i].by;
	uint64_t local = op == WRITE ? from : at, remote = op == WRITE ? at : from;
	struct node_send s =
		side_rdma_to(op, side_sge(&a, KEY_FULL, local, overlaps[i].bytes), &a, remote);
	struct ibv_wc wc[1];

	row("[%s] %d: %u bytes to %ld behind them", mode, (int)op, overlaps[i].bytes,
	    (long)overlaps[i].by);
	side_fill(&a, from, overlaps[i].bytes, i + 7, 0);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "'%s'",
	       ibv_wc_status_str(wc[0].status));
	EXPECT(side_check(&a, at, overlaps[i].bytes, i + 7, 0) == -1, "not what was there before");
}

static void overlap_rows(void)
{
	pair_create(&a, 0, to, to_qp, NULL);
	pair_connect(&a, 0, NULL, to, to_qp, NULL);
	for (size_t i = 0; i < COUNT_OF(overlaps); i++) {
		overlap_row(i, WRITE);
		overlap_row(i, READ);
	}
	pair_destroy(&a, 0, to, to_qp);
}

static void between(const char *name, struct side *responder, int qp)
{
	mode = name;
	to = responder;
	to_qp = qp;
	run_rows();
	if (to == &a)
		overlap_rows();
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	side_open(&a, NULL);
	side_start(&b);
	between("two processes", &b, 0);
	side_stop(&b);
	side_open(&b, NULL);
	between("two contexts", &b, 0);
	side_stop(&b);
	between("one context", &a, 1);
	between("one queue pair", &a, 0);
	side_stop(&a);
	return sandbox_end();
}
