/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a request that cannot be done: the requester's completion, the responder's
 * receive, the states of both queue pairs, the asynchronous event, and that nobody else notices.
 * Each row between two processes, between two contexts of one process, and within one context.
 */
#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/request.h"
#include "lib/sandbox.h"
#include "lib/ways.h"

#define LOCAL_AT  0x1000u  /* offsets in the arenas: the requester's buffer, */
#define REMOTE_AT 0x2000u  /* the responder's memory, */
#define RECV_AT	  0x3000u  /* its receive buffer, */
#define SPARE_AT  0x18000u /* and the second one */
#define WATCHED	  0x20000u /* bytes of each arena that are filled with a pattern */
#define PATIENCE  20000u   /* ms for a completion */
#define ANY	  (-2)	   /* for a wanted value that may be anything */
#define NONE	  (-1)
#define FULL_END  NODE_ARENA

struct fault_row {
	const char *name;
	enum ibv_wr_opcode op;
	unsigned int flags;
	uint32_t bytes;
	int elements; /* 0: one; else @bytes in each of so many; -1: no element */
	enum key lkey, rkey, recv_key;
	int64_t local_by, remote_by, recv_by; /* added to the usual addresses */
	int receives;			      /* how many are posted: 0 .. 2 */
	uint32_t recv_bytes;		      /* 0: as many as are sent; -1: none */
	unsigned int denied;		      /* access flags the responder's queue pair lacks */
	bool no_rd_atomic, no_dest_rd_atomic;
	/* what must come of it */
	int requester, requester2; /* status, and another that is right, too */
	int receive, receive2;	   /* status of the first receive; NONE: it stays posted */
	bool responder_fails;
	int event, event2;
	bool may_write; /* the responder's memory may have been changed */
};

static struct side a, b;
static const char *mode;

/* --- bystanders ------------------------------------------------------------------ */

/* Queue pair 1 of either side: moves data in both directions by both kinds of operation. */
static void bystander_send(struct side *from, struct side *to, uint64_t seed)
{
	struct node_send list[2] = {
		{.wr_id = 1,
		 .opcode = WRITE,
		 .num_sge = 1,
		 .sge = {side_sge(from, KEY_FULL, 0x100000, 5000)},
		 .remote_addr = to->info.base[KEY_FULL] + 0x110000,
		 .rkey = to->info.key[KEY_FULL]},
		{.wr_id = 2,
		 .opcode = SEND,
		 .flags = IBV_SEND_SIGNALED,
		 .num_sge = 1,
		 .sge = {side_sge(from, KEY_FULL, 0x100000, 3000)}},
	};
	struct ibv_wc wc[2];

	side_fill(from, 0x100000, 5000, seed, 0);
	side_recv_one(to, 1, seed, 0x120000, 3000);
	EXPECT(side_post_send(from, 1, list, 2).ret == 0, "bystander: post");
	EXPECT(side_poll(from, 2, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "bystander: send");
	EXPECT(side_poll(to, 3, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS &&
		       wc[0].wr_id == seed,
	       "bystander: receive");
	EXPECT(side_check(to, 0x110000, 5000, seed, 0) == -1 &&
		       side_check(to, 0x120000, 3000, seed, 0) == -1,
	       "bystander: data");
}

static void bystander_goes_on(void)
{
	static uint64_t seed = 1000;

	bystander_send(&a, &b, ++seed);
	bystander_send(&b, &a, ++seed);
}

static void bystander_start(void)
{
	struct node_qp_spec spec = spec_default();

	spec.send_cq = 2;
	spec.recv_cq = 3;
	if (side_create_cq(&a, 2, 16, false) || side_create_cq(&a, 3, 16, false) ||
	    side_create_cq(&b, 2, 16, false) || side_create_cq(&b, 3, 16, false))
		DIE("CQs of the bystanders");
	pair_create(&a, 1, &b, 1, &spec);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
}

/* --- one row --------------------------------------------------------------------- */

static uint32_t total_bytes(const struct fault_row *r)
{
	return r->elements < 0 ? 0 : r->bytes * (uint32_t)(r->elements ? r->elements : 1);
}

static struct node_send request(const struct fault_row *r)
{
	const struct request request = {
		.op = r->op,
		.flags = r->flags,
		.bytes = r->bytes,
		.elements = r->elements,
		.lkey = r->lkey,
		.rkey = r->rkey,
		.local_at = LOCAL_AT + (uint64_t)r->local_by,
		.remote_at = REMOTE_AT + (uint64_t)r->remote_by,
	};
	struct node_send s = request_make(&a, &b, &request);

	if (r->requester == IBV_WC_SUCCESS)
		s.flags |= IBV_SEND_SIGNALED; /* an error completes in any case */
	return s;
}

static void post_receives(const struct fault_row *r)
{
	uint32_t bytes = r->recv_bytes == UINT32_MAX ? 0
			 : r->recv_bytes	     ? r->recv_bytes
						     : total_bytes(r);
	struct node_recv list[2] = {
		{.wr_id = 11,
		 .num_sge = 1,
		 .sge = {side_sge(&b, r->recv_key, RECV_AT + (uint64_t)r->recv_by, bytes)}},
		{.wr_id = 12, .num_sge = 1, .sge = {side_sge(&b, KEY_FULL, SPARE_AT, 64)}},
	};

	if (r->receives)
		EXPECT(side_post_recv(&b, 0, list, r->receives).ret == 0, "post_recv");
}

static void prepare(const struct fault_row *r)
{
	const struct request_limits limits = {r->denied, r->no_rd_atomic, r->no_dest_rd_atomic};

	request_connect(&a, &b, &limits);
	side_fill(&a, 0, WATCHED, 1, 0);
	side_fill(&b, 0, WATCHED, 2, 0);
	post_receives(r);
}

static bool either(int got, int want, int other)
{
	return want == ANY || got == want || (other && got == other);
}

/* The faulty request completes first, and the one behind it is flushed, or done if nothing was
 * wrong. */
static void check_requester(const struct fault_row *r)
{
	int behind = r->requester == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
	struct ibv_wc wc[3];
	int got = side_poll(&a, 0, 2, PATIENCE, wc);

	if (!EXPECT(got == 2, "%d completions at the requester instead of 2", got))
		return;
	EXPECT(wc[0].wr_id == 1 && either((int)wc[0].status, r->requester, r->requester2),
	       "requester: request %d ends as '%s', not '%s'", (int)wc[0].wr_id,
	       ibv_wc_status_str(wc[0].status),
	       ibv_wc_status_str((enum ibv_wc_status)r->requester));
	EXPECT(wc[1].wr_id == 2 && (int)wc[1].status == behind,
	       "requester: request %d behind it ends as '%s'", (int)wc[1].wr_id,
	       ibv_wc_status_str(wc[1].status));
	EXPECT(wc[0].qp_num == side_qpn(&a, 0) && wc[1].qp_num == wc[0].qp_num,
	       "qp_num of the completions");
	EXPECT(side_poll(&a, 0, 1, 0, wc) == 0, "a third completion");
	EXPECT(side_state(&a, 0) == (behind ? IBV_QPS_ERR : IBV_QPS_RTS), "requester in state %d",
	       (int)side_state(&a, 0));
}

/*
 * May the responder have done the request behind the faulty one? On the wire it may be under way
 * when the answer comes, and memory that is not there is missed only then.
 */
static bool may_overtake(const struct fault_row *r)
{
	return on_the_wire() && r->lkey == KEY_GONE && (r->op == READ || request_is_atomic(r->op));
}

/* How many receives complete, and how. */
static void check_receives(const struct fault_row *r)
{
	bool success = r->requester == IBV_WC_SUCCESS && !r->responder_fails;
	int want = r->responder_fails ? r->receives : success ? 1 + request_receives(r->op) : 0;
	struct ibv_wc wc[3];
	int got = side_poll(&b, 1, want, want ? PATIENCE : 0, wc);

	if (!EXPECT(got == want, "%d receives complete instead of %d", got, want))
		return;
	if (want)
		EXPECT(wc[0].wr_id == 11 && either((int)wc[0].status, r->receive, r->receive2),
		       "receive %d ends as '%s', not '%s'", (int)wc[0].wr_id,
		       ibv_wc_status_str(wc[0].status),
		       ibv_wc_status_str((enum ibv_wc_status)r->receive));
	if (want == 2)
		EXPECT(wc[1].wr_id == 12 &&
			       wc[1].status == (success ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR),
		       "receive %d behind it ends as '%s'", (int)wc[1].wr_id,
		       ibv_wc_status_str(wc[1].status));
	if (!may_overtake(r))
		EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "one receive completion too many");
	for (int i = 0; i < want; i++)
		EXPECT(wc[i].qp_num == side_qpn(&b, 0), "qp_num of a receive");
}

static void check_responder(const struct fault_row *r)
{
	enum ibv_qp_state want = r->responder_fails ? IBV_QPS_ERR : IBV_QPS_RTS,
			  state = side_state(&b, 0);
	struct node_event e = side_async(&b, r->event >= 0 ? PATIENCE : 0);

	EXPECT(state == want, "responder in state %d instead of %d", (int)state, (int)want);
	if (r->event == NONE)
		EXPECT(!e.any, "event %d", (int)e.type);
	else
		EXPECT(e.any && either((int)e.type, r->event, r->event2) && e.qp == 0,
		       "event %d of QP %d instead of %d", e.any ? (int)e.type : -1, e.qp, r->event);
	e = side_async(&b, 0);
	EXPECT(!e.any, "second event %d", (int)e.type);
	e = side_async(&a, 0);
	EXPECT(!e.any, "event %d at the requester", (int)e.type);
}

static void check_memory(const struct fault_row *r)
{
	if (r->requester == IBV_WC_SUCCESS)
		return;
	EXPECT(side_check(&a, 0, WATCHED, 1, 0) == -1, "the requester's memory changed");
	if (!r->may_write)
		EXPECT(side_check(&b, 0, WATCHED, 2, 0) == -1, "the responder's memory changed");
}

static void run(const struct fault_row *r)
{
	struct node_send list[2];

	row("[%s] %s: %s", mode, probe_name(r->op), r->name);
	prepare(r);
	list[0] = request(r);
	list[1] = (struct node_send){.wr_id = 2, .opcode = SEND, .flags = IBV_SEND_SIGNALED};
	EXPECT(side_post_send(&a, 0, list, 2).ret == 0, "post_send");
	check_requester(r);
	check_receives(r);
	check_responder(r);
	check_memory(r);
	bystander_goes_on();
	pair_destroy(&a, 0, &b, 0);
}

/* --- faults at the requester: the responder notices nothing ---------------------- */

static void requester_rows(void)
{
	static const struct {
		const char *name;
		enum key lkey;
		int64_t by;
		uint32_t bytes;
		bool readable_suffices; /* a fault only for what writes to the buffer */
	} faults[] = {
		{"lkey never given out", KEY_WRONG, 0, 8, false},
		{"lkey 0", KEY_ZERO, 0, 8, false},
		{"lkey of a deregistered region", KEY_DEAD, 0, 8, false},
		{"lkey of another protection domain", KEY_OTHER_PD, 0, 8, false},
		{"buffer ends one byte behind the region", KEY_FULL,
		 (int64_t)(FULL_END - LOCAL_AT - 7), 8, false},
		{"buffer begins before the region", KEY_FULL, -(int64_t)LOCAL_AT - 1, 8, false},
		{"buffer far away", KEY_FULL, INT64_MIN, 8, false},
		{"offset in a zero-based region beyond its end", KEY_ZERO_BASED,
		 (int64_t)(FULL_END - LOCAL_AT), 8, false},
		{"buffer that is no longer there", KEY_GONE, 0, 8, false},
		{"large buffer that is no longer there", KEY_GONE, 0, 40000, false},
		{"buffer without LOCAL_WRITE", KEY_READ_ONLY, 0, 8, true},
	};
	static const enum ibv_wr_opcode ops[] = {SEND, SENDI, WRITE, WRITI, READ, CAS, FAA};

	for (size_t f = 0; f < COUNT_OF(faults); f++) {
		for (size_t o = 0; o < COUNT_OF(ops); o++) {
			bool fetches = ops[o] == READ || request_is_atomic(ops[o]);
			struct fault_row r = {
				.name = faults[f].name,
				.op = ops[o],
				.bytes = request_is_atomic(ops[o]) ? 8 : faults[f].bytes,
				.lkey = faults[f].lkey,
				.local_by = faults[f].by,
				.receives = 2,
				.requester = IBV_WC_LOC_PROT_ERR,
				.receive = NONE,
				.event = NONE,
				.may_write = request_is_atomic(ops[o]),
			};

			if (!faults[f].readable_suffices || fetches)
				run(&r);
		}
	}
}

static void requester_length_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "buffer of 4 bytes", .op = FAA, .bytes = 4},
		{.name = "buffer of 9 bytes", .op = FAA, .bytes = 9},
		{.name = "two buffers of 8 bytes", .op = CAS, .bytes = 8, .elements = 2},
		{.name = "no buffer", .op = CAS, .elements = -1},
		{.name = "message of 3 GiB",
		 .op = SEND,
		 .bytes = 0x60000000,
		 .elements = 2,
		 .recv_bytes = 8},
		{.name = "message of 60 GiB",
		 .op = WRITE,
		 .bytes = 0x7fffffff,
		 .elements = 32,
		 .recv_bytes = 8},
		{.name = "message of 4 GiB, which is 0 in 32 bits",
		 .op = READ,
		 .bytes = 0x80000000,
		 .elements = 2,
		 .recv_bytes = 8},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fault_row r = rows[i];

		r.receives = 2;
		r.requester = IBV_WC_LOC_LEN_ERR;
		r.receive = r.event = NONE;
		run(&r);
	}
}

/* --- faults at the responder's memory -------------------------------------------- */

/* Does the request take a receive before it is refused? On the wire its last packet does. */
static bool takes_receive(const struct fault_row *r)
{
	return r->op == WRITI && !(on_the_wire() && r->bytes > 4096);
}

static void remote_row(struct fault_row r)
{
	r.receives = 2;
	r.requester = IBV_WC_REM_ACCESS_ERR;
	r.receive = takes_receive(&r) ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR;
	r.responder_fails = true;
	r.event = IBV_EVENT_QP_ACCESS_ERR;
	run(&r);
}

static void remote_rows(void)
{
	static const struct {
		const char *name;
		enum key rkey;
		int64_t by;
		uint32_t bytes;
	} faults[] = {
		{"rkey never given out", KEY_WRONG, 0, 8},
		{"rkey 0", KEY_ZERO, 0, 8},
		{"rkey of a deregistered region", KEY_DEAD, 0, 8},
		{"rkey of another protection domain", KEY_OTHER_PD, 0, 8},
		{"region without remote rights", KEY_LOCAL, 0, 8},
		{"region without any rights", KEY_READ_ONLY, 0, 8},
		{"range ends 8 bytes behind the region", KEY_FULL, (int64_t)(FULL_END - REMOTE_AT),
		 8},
		{"range begins 8 bytes before the region", KEY_FULL, -(int64_t)REMOTE_AT - 8, 8},
		{"range wraps around the address space", KEY_ZERO_BASED, -(int64_t)REMOTE_AT - 8,
		 8},
		{"address far away", KEY_FULL, INT64_MIN, 8},
		{"virtual address where the region has its own", KEY_IOVA, 0x100000000, 8},
		{"memory that is no longer there", KEY_GONE, 0, 8},
		{"much memory that is no longer there", KEY_GONE, 0, 40000},
	};
	static const enum ibv_wr_opcode ops[] = {WRITE, WRITI, READ, CAS, FAA};

	for (size_t f = 0; f < COUNT_OF(faults); f++)
		for (size_t o = 0; o < COUNT_OF(ops); o++)
			remote_row((struct fault_row){
				.name = faults[f].name,
				.op = ops[o],
				.rkey = faults[f].rkey,
				.remote_by = faults[f].by,
				.bytes = request_is_atomic(ops[o]) ? 8 : faults[f].bytes});
	remote_row((struct fault_row){.name = "region without REMOTE_WRITE",
				      .op = WRITE,
				      .rkey = KEY_NO_WRITE,
				      .bytes = 8});
	remote_row((struct fault_row){.name = "region without REMOTE_WRITE",
				      .op = WRITI,
				      .rkey = KEY_NO_WRITE,
				      .bytes = 8});
	remote_row((struct fault_row){
		.name = "region without REMOTE_READ", .op = READ, .rkey = KEY_NO_READ, .bytes = 8});
	remote_row((struct fault_row){.name = "region without REMOTE_ATOMIC",
				      .op = CAS,
				      .rkey = KEY_NO_ATOMIC,
				      .bytes = 8});
	remote_row((struct fault_row){.name = "region without REMOTE_ATOMIC",
				      .op = FAA,
				      .rkey = KEY_NO_ATOMIC,
				      .bytes = 8});
	remote_row((struct fault_row){.name = "range ends one byte behind the region",
				      .op = READ,
				      .bytes = 9,
				      .remote_by = (int64_t)(FULL_END - REMOTE_AT - 8)});
	remote_row((struct fault_row){.name = "range ends one byte behind the region",
				      .op = WRITE,
				      .bytes = 70000,
				      .remote_by = (int64_t)(FULL_END - REMOTE_AT - 69999)});
}

static void write_imm_without_receive_row(void)
{
	const struct fault_row r = {
		.name = "bad rkey and no receive posted",
		.op = WRITI,
		.rkey = KEY_WRONG,
		.bytes = 8,
		.requester = IBV_WC_REM_ACCESS_ERR,
		.responder_fails = true,
		.event = IBV_EVENT_QP_ACCESS_ERR,
	};

	run(&r);
}

/* --- requests the responder's queue pair does not accept ------------------------- */

static void invalid_request_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "QP without REMOTE_WRITE",
		 .op = WRITE,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_WRITE},
		{.name = "QP without REMOTE_WRITE",
		 .op = WRITI,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_WRITE},
		{.name = "QP without REMOTE_READ",
		 .op = READ,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_READ},
		{.name = "QP without REMOTE_ATOMIC",
		 .op = CAS,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_ATOMIC},
		{.name = "QP without REMOTE_ATOMIC",
		 .op = FAA,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_ATOMIC},
		{.name = "QP without access flags",
		 .op = READ,
		 .bytes = 40000,
		 .denied = PROBE_ALL},
		{.name = "QP without REMOTE_WRITE, and a bad rkey",
		 .op = WRITE,
		 .bytes = 8,
		 .rkey = KEY_WRONG,
		 .denied = IBV_ACCESS_REMOTE_WRITE},
		{.name = "max_dest_rd_atomic 0", .op = READ, .bytes = 8, .no_dest_rd_atomic = true},
		{.name = "max_dest_rd_atomic 0", .op = CAS, .bytes = 8, .no_dest_rd_atomic = true},
		{.name = "max_dest_rd_atomic 0", .op = FAA, .bytes = 8, .no_dest_rd_atomic = true},
		{.name = "misaligned by 1", .op = FAA, .bytes = 8, .remote_by = 1},
		{.name = "misaligned by 4", .op = CAS, .bytes = 8, .remote_by = 4},
		{.name = "misaligned, and a bad rkey",
		 .op = CAS,
		 .bytes = 8,
		 .remote_by = 4,
		 .rkey = KEY_WRONG},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fault_row r = rows[i];

		r.receives = 2;
		r.requester = IBV_WC_REM_INV_REQ_ERR;
		r.receive = IBV_WC_WR_FLUSH_ERR;
		r.responder_fails = true;
		r.event = IBV_EVENT_QP_REQ_ERR;
		r.event2 = IBV_EVENT_QP_ACCESS_ERR;
		run(&r);
	}
}

/* --- receives that cannot take the message --------------------------------------- */

static void short_receive_rows(void)
{
	static const struct {
		uint32_t sent, room;
	} sizes[] = {{1, UINT32_MAX}, {9, 8}, {65, 64}, {1000, 999}, {16385, 16384}, {70000, 10}};
	static const enum ibv_wr_opcode ops[] = {SEND, SENDI};

	for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(ops); i++) {
		const struct fault_row r = {
			.name = "receive buffer too short",
			.op = ops[i % COUNT_OF(ops)],
			.bytes = sizes[i / 2].sent,
			.recv_bytes = sizes[i / 2].room,
			.receives = 2,
			.requester = IBV_WC_REM_INV_REQ_ERR,
			.receive = IBV_WC_LOC_LEN_ERR,
			.responder_fails = true,
			.event = NONE,
			.may_write = true,
		};

		run(&r);
	}
}

/*
 * Between processes of a host a small message is placed when its completion is polled: only then is
 * the buffer missed.
 */
static bool small_are_placed_by_poll(void)
{
	return !b.node && !on_the_wire();
}

static bool placed_by_poll(const struct fault_row *r)
{
	return small_are_placed_by_poll() && r->recv_key == KEY_GONE && r->bytes <= 16384;
}

static void buffer_missed_late(uint32_t bytes)
{
	const struct fault_row r = {
		.name = "receive buffer is missed when the completion is polled",
		.op = SEND,
		.bytes = bytes,
		.recv_key = KEY_GONE,
		.receives = 1,
		.requester = IBV_WC_SUCCESS};
	struct node_send send;
	struct ibv_wc wc[2];

	row("[%s] %s of %u bytes", mode, r.name, bytes);
	prepare(&r);
	send = request(&r);
	EXPECT(side_post_send(&a, 0, &send, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "the sender has success");
	EXPECT(side_poll(&b, 1, 2, 100, wc) == 1 && wc[0].wr_id == 11 &&
		       wc[0].status == IBV_WC_LOC_PROT_ERR,
	       "the receiver's completion");
	EXPECT(side_state(&b, 0) == IBV_QPS_ERR, "responder in state %d", (int)side_state(&b, 0));
	bystander_goes_on();
	pair_destroy(&a, 0, &b, 0);
}

static void bad_receive_rows(void)
{
	static const struct {
		const char *name;
		enum key key;
		int64_t by;
	} faults[] = {
		{"receive lkey never given out", KEY_WRONG, 0},
		{"receive lkey 0", KEY_ZERO, 0},
		{"receive lkey of a deregistered region", KEY_DEAD, 0},
		{"receive lkey of another protection domain", KEY_OTHER_PD, 0},
		{"receive buffer without LOCAL_WRITE", KEY_READ_ONLY, 0},
		{"receive buffer behind the region", KEY_FULL, (int64_t)FULL_END},
		{"receive buffer before the region", KEY_FULL, -(int64_t)RECV_AT - 1},
		{"receive buffer that is no longer there", KEY_GONE, 0},
	};
	static const uint32_t sizes[] = {8, 1000, 16384, 40000};

	for (size_t i = 0; i < COUNT_OF(faults) * COUNT_OF(sizes); i++) {
		const struct fault_row r = {
			.name = faults[i / 4].name,
			.op = i % 2 ? SEND : SENDI,
			.bytes = sizes[i % 4],
			.recv_key = faults[i / 4].key,
			.recv_by = faults[i / 4].by,
			.receives = 2,
			.requester = IBV_WC_REM_OP_ERR,
			.receive = IBV_WC_LOC_PROT_ERR,
			.responder_fails = true,
			.event = NONE,
			.may_write = true,
		};

		if (!placed_by_poll(&r))
			run(&r);
	}
}

static void receive_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "short receive with a bad lkey: either",
		 .op = SEND,
		 .bytes = 100,
		 .recv_bytes = 50,
		 .recv_key = KEY_WRONG,
		 .receives = 2,
		 .requester = IBV_WC_REM_INV_REQ_ERR,
		 .requester2 = IBV_WC_REM_OP_ERR,
		 .receive = IBV_WC_LOC_LEN_ERR,
		 .receive2 = IBV_WC_LOC_PROT_ERR,
		 .responder_fails = true,
		 .event = NONE,
		 .may_write = true},
		{.name = "no receive posted",
		 .op = SEND,
		 .bytes = 8,
		 .requester = IBV_WC_RNR_RETRY_EXC_ERR,
		 .event = NONE},
		{.name = "no receive posted",
		 .op = SENDI,
		 .bytes = 40000,
		 .requester = IBV_WC_RNR_RETRY_EXC_ERR,
		 .event = NONE},
		{.name = "no receive posted",
		 .op = WRITI,
		 .bytes = 8,
		 .requester = IBV_WC_RNR_RETRY_EXC_ERR,
		 .event = NONE,
		 .may_write = true},
		{.name = "key that cannot be invalidated: no answer",
		 .op = IBV_WR_SEND_WITH_INV,
		 .bytes = 8,
		 .receives = 2,
		 .requester = IBV_WC_RETRY_EXC_ERR,
		 .receive = ANY,
		 .responder_fails = true,
		 .event = NONE,
		 .may_write = true},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		run(&rows[i]);
}

/* --- two faults at once, and what is no fault ------------------------------------ */

/*
 * A request that brings something back, with a bad lkey and @r. On one host the responder's fault
 * comes first. On the wire the requester looks at its own side before it sends anything.
 */
static void fetch_row(struct fault_row r)
{
	r.lkey = KEY_WRONG;
	r.bytes = 8;
	r.receives = 2;
	if (on_the_wire()) {
		r.requester = IBV_WC_LOC_PROT_ERR;
		r.receive = r.event = NONE;
	} else {
		r.receive = IBV_WC_WR_FLUSH_ERR;
		r.responder_fails = true;
	}
	run(&r);
}

static void combined_rows(void)
{
	static const enum ibv_wr_opcode remote_first[] = {READ, CAS, FAA};

	fetch_row((struct fault_row){.name = "misaligned, and a bad lkey",
				     .op = FAA,
				     .remote_by = 4,
				     .requester = IBV_WC_REM_INV_REQ_ERR,
				     .event = IBV_EVENT_QP_REQ_ERR,
				     .event2 = IBV_EVENT_QP_ACCESS_ERR});
	run(&(struct fault_row){.name = "bad lkey and bad rkey: the local one",
				.op = WRITE,
				.bytes = 8,
				.lkey = KEY_WRONG,
				.rkey = KEY_WRONG,
				.receives = 2,
				.requester = IBV_WC_LOC_PROT_ERR,
				.receive = NONE,
				.event = NONE});
	for (size_t i = 0; i < COUNT_OF(remote_first); i++)
		fetch_row((struct fault_row){.name = "bad lkey and bad rkey",
					     .op = remote_first[i],
					     .rkey = KEY_WRONG,
					     .requester = IBV_WC_REM_ACCESS_ERR,
					     .event = IBV_EVENT_QP_ACCESS_ERR});
	run(&(struct fault_row){.name = "bad lkey and no receive posted: the local one",
				.op = SEND,
				.bytes = 8,
				.lkey = KEY_WRONG,
				.requester = IBV_WC_LOC_PROT_ERR,
				.receive = NONE,
				.event = NONE});
	for (size_t i = 0; i < COUNT_OF(remote_first); i++)
		run(&(struct fault_row){.name = "max_rd_atomic 0 at the requester",
					.op = remote_first[i],
					.bytes = 8,
					.no_rd_atomic = true,
					.receives = 2,
					.requester = IBV_WC_LOC_QP_OP_ERR,
					.receive = NONE,
					.event = NONE});
}

static void no_fault_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "inline: the lkey is not looked at",
		 .op = SEND,
		 .bytes = 8,
		 .flags = IBV_SEND_INLINE,
		 .lkey = KEY_WRONG},
		{.name = "inline: the lkey is not looked at",
		 .op = WRITE,
		 .bytes = 8,
		 .flags = IBV_SEND_INLINE,
		 .lkey = KEY_ZERO},
		{.name = "source without any rights",
		 .op = SEND,
		 .bytes = 8,
		 .lkey = KEY_READ_ONLY},
		{.name = "source without any rights",
		 .op = WRITE,
		 .bytes = 40000,
		 .lkey = KEY_READ_ONLY},
		{.name = "zero length, bad keys",
		 .op = SEND,
		 .lkey = KEY_WRONG,
		 .recv_key = KEY_WRONG},
		{.name = "zero length, no elements", .op = SENDI, .elements = -1},
		{.name = "zero length, bad keys",
		 .op = WRITE,
		 .lkey = KEY_WRONG,
		 .rkey = KEY_WRONG},
		{.name = "zero length, address of nothing",
		 .op = WRITE,
		 .elements = -1,
		 .rkey = KEY_ZERO,
		 .remote_by = INT64_MIN},
		{.name = "zero length, bad keys",
		 .op = WRITI,
		 .lkey = KEY_WRONG,
		 .rkey = KEY_WRONG},
		{.name = "zero length, bad keys", .op = READ, .lkey = KEY_WRONG, .rkey = KEY_WRONG},
		{.name = "zero length, no elements", .op = READ, .elements = -1, .rkey = KEY_DEAD},
		{.name = "atomics need no other remote right",
		 .op = CAS,
		 .bytes = 8,
		 .rkey = KEY_ATOMIC_ONLY},
		{.name = "atomics need no other remote right",
		 .op = FAA,
		 .bytes = 8,
		 .rkey = KEY_ATOMIC_ONLY},
		{.name = "offset in a zero-based region",
		 .op = WRITE,
		 .bytes = 8,
		 .rkey = KEY_ZERO_BASED},
		{.name = "address of the program's choice",
		 .op = READ,
		 .bytes = 8,
		 .rkey = KEY_IOVA,
		 .lkey = KEY_IOVA},
		{.name = "receive longer than the message",
		 .op = SEND,
		 .bytes = 8,
		 .recv_bytes = 4000},
		{.name = "receive longer than its region, the message fits",
		 .op = SEND,
		 .bytes = 8,
		 .recv_bytes = (uint32_t)(FULL_END)},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fault_row r = rows[i];

		r.receives = 2;
		r.requester = IBV_WC_SUCCESS;
		r.receive = request_receives(r.op) ? IBV_WC_SUCCESS : ANY;
		r.event = NONE;
		if (!request_receives(r.op))
			r.recv_bytes = 8;
		run(&r);
	}
}

static void all_rows(const char *name)
{
	mode = name;
	row("[%s] bystanders start", mode);
	bystander_start();
	requester_rows();
	requester_length_rows();
	remote_rows();
	write_imm_without_receive_row();
	invalid_request_rows();
	short_receive_rows();
	bad_receive_rows();
	for (uint32_t bytes = 8; bytes <= 16384 && small_are_placed_by_poll(); bytes *= 16)
		buffer_missed_late(bytes);
	receive_rows();
	combined_rows();
	no_fault_rows();
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(200);
	sandbox_enter();
	three_ways(&a, &b, all_rows);
	sandbox_leave();
	return summary();
}
