/* SPDX-License-Identifier: MIT */
/* Requests of one process that the memory, the queues or the process at the other end do not
 * permit. */
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/request.h"
#include "recorder.h"

#define LOCAL_AT  0x1000u
#define REMOTE_AT 0x2000u
#define RECV_AT	  0x3000u
#define PATIENCE  20000u

#define LACK(right) (PROBE_ALL & ~(uint64_t)IBV_ACCESS_##right)
#define BEHIND	    (NODE_ARENA - 4) /* four bytes are left */

/* Whose key is to blame. */
enum whose { NOBODYS, OURS, THEIRS, RECEIVERS };

struct request_row {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t bytes;
	int elements; /* 0: one */
	enum key lkey, rkey, recv_key;
	int64_t local_at, remote_at; /* 0: the usual places */
	uint32_t recv_bytes;	     /* 0: no receive is posted */
	uint32_t denied;	     /* access flags that the responder's queue pair lacks */
	bool no_rd, no_dest_rd;

	enum av_check check;
	enum whose whose;
	enum ibv_wc_status status;
	bool responder; /* it fails, too, and has a record of its own, */
	int receive;	/* with this status, */
	int event;	/* and this event; 0: none */
	uint64_t wanted, limit;
};

static struct node_send request(const struct request_row *r)
{
	const struct request request = {
		.op = r->op,
		.bytes = r->bytes,
		.elements = r->elements,
		.lkey = r->lkey,
		.rkey = r->rkey,
		.local_at = (uint64_t)(r->local_at ? r->local_at : LOCAL_AT),
		.remote_at = (uint64_t)(r->remote_at ? r->remote_at : REMOTE_AT),
	};
	struct node_send s = request_make(&a, &b, &request);

	s.wr_id = 4711;
	if (r->op == IBV_WR_SEND_WITH_INV)
		s.imm = s.rkey;
	return s;
}

static void start(const struct request_row *r)
{
	const struct request_limits limits = {
		.denied = r->denied, .no_rd_atomic = r->no_rd, .no_dest_rd_atomic = r->no_dest_rd};
	struct node_recv recv = {.wr_id = 11,
				 .num_sge = 1,
				 .sge = {side_sge(&b, r->recv_key, RECV_AT, r->recv_bytes)}};

	request_connect(&a, &b, &limits);
	if (r->recv_bytes)
		EXPECT(side_post_recv(&b, 0, &recv, 1).ret == 0, "post_recv");
}

static enum ibv_wc_status outcome(const struct request_row *r)
{
	struct node_send s = request(r);
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	recorder_begin();
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1, "no completion");
	return wc.status;
}

static uint32_t blamed_key(const struct request_row *r)
{
	return r->whose == OURS	    ? a.info.key[r->lkey]
	       : r->whose == THEIRS ? b.info.key[r->rkey]
				    : b.info.key[r->recv_key];
}

/* What both records say. */
static void check_common(const struct request_row *row, const struct av_flight_record *r)
{
	EXPECT((r->has & AV_HAS_REQUEST) && r->opcode == (uint32_t)row->op, "opcode %u", r->opcode);
	EXPECT(r->object == AV_OBJECT_QP && (r->has & AV_HAS_PEER), "object %u", r->object);
	EXPECT(r->by == getpid(), "found out by %d", r->by);
	if (row->whose == NOBODYS)
		return;
	EXPECT((r->has & AV_HAS_ACCESS) && r->key == blamed_key(row), "key 0x%x instead of 0x%x",
	       r->key, blamed_key(row));
	EXPECT(r->remote == (row->whose == THEIRS), "remote %u", r->remote);
	if (r->has & AV_HAS_REGION)
		EXPECT(r->region_pid == (row->whose == OURS ? getpid() : b.pid), "registered by %d",
		       r->region_pid);
}

static void check_requester(const struct request_row *row)
{
	const struct seed seed = {row->name, row->check, AV_FLIGHT_REQUEST, row->wanted,
				  row->limit};
	struct av_flight_record r;

	if (!recorder_find(&seed, &r))
		return;
	check_common(row, &r);
	EXPECT(r.pid == getpid() && r.number == side_qpn(&a, 0), "pid %d QP %u", r.pid, r.number);
	EXPECT(r.peer_pid == b.pid && r.peer_qp == side_qpn(&b, 0), "peer %d QP %u", r.peer_pid,
	       r.peer_qp);
	EXPECT(r.wr_id == 4711 && r.status == row->status, "wr_id %lu status %u",
	       (unsigned long)r.wr_id, r.status);
}

static void check_responder(const struct request_row *row)
{
	const struct seed seed = {row->name, row->check, AV_FLIGHT_RECEIVE, row->wanted,
				  row->limit};
	struct av_flight_record r;

	if (!recorder_find(&seed, &r))
		return;
	check_common(row, &r);
	EXPECT(r.pid == b.pid && r.number == side_qpn(&b, 0), "pid %d QP %u", r.pid, r.number);
	EXPECT(r.peer_pid == getpid() && r.peer_qp == side_qpn(&a, 0), "peer %d QP %u", r.peer_pid,
	       r.peer_qp);
	EXPECT(row->receive ? (r.has & AV_HAS_STATUS) && r.status == row->receive
			    : !(r.has & AV_HAS_STATUS),
	       "status %u", r.status);
	EXPECT(row->event ? (r.has & AV_HAS_EVENT) && r.event == row->event
			  : !(r.has & AV_HAS_EVENT),
	       "event %d", r.event);
}

static void run(const struct request_row *r)
{
	enum ibv_wc_status status;

	row("request: %s", r->name);
	start(r);
	status = outcome(r);
	EXPECT(status == r->status, "status %d instead of %d", status, r->status);
	check_requester(r);
	if (r->responder)
		check_responder(r);
	pair_destroy(&a, 0, &b, 0);
	while (side_async(&b, 0).any)
		;
}

/* clang-format off */
static const struct request_row local_rows[] = {
	{.name = "lkey that was never given out", .op = WRITE, .bytes = 8, .lkey = KEY_WRONG, .check = AV_CHECK_LKEY_UNKNOWN},
	{.name = "lkey 0",                        .op = WRITE, .bytes = 8, .lkey = KEY_ZERO, .check = AV_CHECK_LKEY_UNKNOWN},
	{.name = "lkey of a deregistered region", .op = WRITE, .bytes = 8, .lkey = KEY_DEAD, .check = AV_CHECK_KEY_DEAD},
	{.name = "lkey of another domain",        .op = WRITE, .bytes = 8, .lkey = KEY_OTHER_PD, .check = AV_CHECK_KEY_PD},
	{.name = "READ into what is not writable", .op = READ, .bytes = 8, .lkey = KEY_READ_ONLY, .check = AV_CHECK_KEY_RIGHTS, .wanted = IBV_ACCESS_LOCAL_WRITE, .limit = 0},
	{.name = "atomic into what is not writable", .op = FAA, .bytes = 8, .lkey = KEY_READ_ONLY, .check = AV_CHECK_KEY_RIGHTS, .wanted = IBV_ACCESS_LOCAL_WRITE, .limit = 0},
	{.name = "source begins before its region", .op = WRITE, .bytes = 64, .local_at = -24, .check = AV_CHECK_KEY_BEFORE, .wanted = 24, .limit = NODE_ARENA},
	{.name = "source ends behind its region", .op = WRITE, .bytes = 64, .local_at = BEHIND, .check = AV_CHECK_KEY_BEHIND, .wanted = 60, .limit = NODE_ARENA},
	{.name = "second element ends behind",    .op = SEND, .bytes = 64, .elements = 2, .local_at = NODE_ARENA - 1, .recv_bytes = 500, .check = AV_CHECK_KEY_BEHIND, .wanted = 63, .limit = NODE_ARENA},
	{.name = "source cannot be read",         .op = WRITE, .bytes = 8, .lkey = KEY_GONE, .check = AV_CHECK_MEMORY_FAULT},
};
/* clang-format on */

static void seed_local(void)
{
	for (size_t i = 0; i < COUNT_OF(local_rows); i++) {
		struct request_row r = local_rows[i];

		r.whose = OURS;
		r.status = IBV_WC_LOC_PROT_ERR;
		if (r.check != AV_CHECK_KEY_RIGHTS && !r.wanted)
			r.wanted = r.limit = ANY;
		run(&r);
	}
}

/* clang-format off */
static const struct request_row remote_rows[] = {
	{.name = "rkey that was never given out", .op = WRITE, .rkey = KEY_WRONG, .check = AV_CHECK_KEY_UNKNOWN},
	{.name = "rkey of a deregistered region", .op = READ, .rkey = KEY_DEAD, .check = AV_CHECK_KEY_DEAD},
	{.name = "rkey of another domain",        .op = WRITE, .rkey = KEY_OTHER_PD, .check = AV_CHECK_KEY_PD},
	{.name = "no REMOTE_WRITE",               .op = WRITE, .rkey = KEY_NO_WRITE, .check = AV_CHECK_KEY_RIGHTS, .wanted = IBV_ACCESS_REMOTE_WRITE, .limit = LACK(REMOTE_WRITE)},
	{.name = "no REMOTE_READ",                .op = READ, .rkey = KEY_NO_READ, .check = AV_CHECK_KEY_RIGHTS, .wanted = IBV_ACCESS_REMOTE_READ, .limit = LACK(REMOTE_READ)},
	{.name = "no REMOTE_ATOMIC, compare and swap", .op = CAS, .rkey = KEY_NO_ATOMIC, .check = AV_CHECK_KEY_RIGHTS, .wanted = IBV_ACCESS_REMOTE_ATOMIC, .limit = LACK(REMOTE_ATOMIC)},
	{.name = "no REMOTE_ATOMIC, fetch and add", .op = FAA, .rkey = KEY_NO_ATOMIC, .check = AV_CHECK_KEY_RIGHTS, .wanted = IBV_ACCESS_REMOTE_ATOMIC, .limit = LACK(REMOTE_ATOMIC)},
	{.name = "WRITE begins before",           .op = WRITE, .remote_at = -5, .check = AV_CHECK_KEY_BEFORE, .wanted = 5, .limit = NODE_ARENA},
	{.name = "WRITE ends behind",             .op = WRITE, .remote_at = BEHIND, .check = AV_CHECK_KEY_BEHIND, .wanted = 4, .limit = NODE_ARENA},
	{.name = "READ ends behind",              .op = READ, .remote_at = BEHIND, .check = AV_CHECK_KEY_BEHIND, .wanted = 4, .limit = NODE_ARENA},
	{.name = "atomic wholly behind",          .op = CAS, .remote_at = NODE_ARENA + 16, .check = AV_CHECK_KEY_BEHIND, .wanted = 24, .limit = NODE_ARENA},
	{.name = "zero based, behind",            .op = WRITE, .rkey = KEY_ZERO_BASED, .remote_at = BEHIND, .check = AV_CHECK_KEY_BEHIND, .wanted = 4, .limit = NODE_ARENA},
	{.name = "own addresses, before",         .op = READ, .rkey = KEY_IOVA, .remote_at = -1, .check = AV_CHECK_KEY_BEFORE, .wanted = 1, .limit = NODE_ARENA},
	{.name = "memory cannot be written",      .op = WRITE, .rkey = KEY_GONE, .check = AV_CHECK_MEMORY_FAULT},
	{.name = "memory cannot be read",         .op = READ, .rkey = KEY_GONE, .check = AV_CHECK_MEMORY_FAULT},
};
/* clang-format on */

static void seed_remote(void)
{
	for (size_t i = 0; i < COUNT_OF(remote_rows); i++) {
		struct request_row r = remote_rows[i];

		r.bytes = 8;
		r.whose = THEIRS;
		r.status = IBV_WC_REM_ACCESS_ERR;
		r.responder = true;
		r.event = IBV_EVENT_QP_ACCESS_ERR;
		if (!r.wanted)
			r.wanted = r.limit = ANY;
		run(&r);
	}
}

/* clang-format off */
static const struct request_row other_rows[] = {
	{.name = "WRITE WITH IMMEDIATE, bad rkey", .op = WRITI, .bytes = 8, .rkey = KEY_NO_WRITE, .recv_bytes = 8, .check = AV_CHECK_KEY_RIGHTS, .whose = THEIRS, .status = IBV_WC_REM_ACCESS_ERR,
	 .responder = true, .receive = IBV_WC_LOC_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR, .wanted = IBV_ACCESS_REMOTE_WRITE, .limit = LACK(REMOTE_WRITE)},
	{.name = "QP without REMOTE_WRITE", .op = WRITE, .bytes = 8, .denied = IBV_ACCESS_REMOTE_WRITE, .check = AV_CHECK_RESPONDER_ACCESS, .status = IBV_WC_REM_INV_REQ_ERR,
	 .responder = true, .event = IBV_EVENT_QP_REQ_ERR, .wanted = IBV_ACCESS_REMOTE_WRITE, .limit = LACK(REMOTE_WRITE)},
	{.name = "QP without REMOTE_READ", .op = READ, .bytes = 8, .denied = IBV_ACCESS_REMOTE_READ, .check = AV_CHECK_RESPONDER_ACCESS, .status = IBV_WC_REM_INV_REQ_ERR,
	 .responder = true, .event = IBV_EVENT_QP_REQ_ERR, .wanted = IBV_ACCESS_REMOTE_READ, .limit = LACK(REMOTE_READ)},
	{.name = "QP without REMOTE_ATOMIC", .op = FAA, .bytes = 8, .denied = IBV_ACCESS_REMOTE_ATOMIC, .check = AV_CHECK_RESPONDER_ACCESS, .status = IBV_WC_REM_INV_REQ_ERR,
	 .responder = true, .event = IBV_EVENT_QP_REQ_ERR, .wanted = IBV_ACCESS_REMOTE_ATOMIC, .limit = LACK(REMOTE_ATOMIC)},
	{.name = "max_rd_atomic 0", .op = READ, .bytes = 8, .no_rd = true, .check = AV_CHECK_REQUEST_RD, .status = IBV_WC_LOC_QP_OP_ERR, .wanted = 1, .limit = 0},
	{.name = "max_dest_rd_atomic 0", .op = CAS, .bytes = 8, .no_dest_rd = true, .check = AV_CHECK_RESPONDER_RD, .status = IBV_WC_REM_INV_REQ_ERR,
	 .responder = true, .event = IBV_EVENT_QP_REQ_ERR, .wanted = 1, .limit = 0},
	{.name = "misaligned atomic", .op = CAS, .bytes = 8, .remote_at = REMOTE_AT + 3, .check = AV_CHECK_ATOMIC_ALIGN, .status = IBV_WC_REM_INV_REQ_ERR,
	 .responder = true, .event = IBV_EVENT_QP_REQ_ERR, .wanted = 3, .limit = 8},
	{.name = "atomic into 4 bytes", .op = FAA, .bytes = 4, .check = AV_CHECK_REQUEST_ATOMIC, .status = IBV_WC_LOC_LEN_ERR, .wanted = 4, .limit = 8},
	{.name = "message above max_msg_sz", .op = WRITE, .bytes = 0x30000000, .elements = 2, .check = AV_CHECK_REQUEST_LENGTH, .status = IBV_WC_LOC_LEN_ERR, .wanted = 0x60000000, .limit = 1u << 30},
	{.name = "receive too short", .op = SEND, .bytes = 100, .recv_bytes = 60, .check = AV_CHECK_RECV_SHORT, .status = IBV_WC_REM_INV_REQ_ERR,
	 .responder = true, .receive = IBV_WC_LOC_LEN_ERR, .wanted = 100, .limit = 60},
	{.name = "receive buffer of another domain", .op = SEND, .bytes = 100, .recv_bytes = 100, .recv_key = KEY_OTHER_PD, .check = AV_CHECK_KEY_PD, .whose = RECEIVERS, .status = IBV_WC_REM_OP_ERR,
	 .responder = true, .receive = IBV_WC_LOC_PROT_ERR, .wanted = ANY, .limit = ANY},
	{.name = "receive buffer not writable", .op = SEND, .bytes = 100, .recv_bytes = 100, .recv_key = KEY_READ_ONLY, .check = AV_CHECK_KEY_RIGHTS, .whose = RECEIVERS, .status = IBV_WC_REM_OP_ERR,
	 .responder = true, .receive = IBV_WC_LOC_PROT_ERR, .wanted = IBV_ACCESS_LOCAL_WRITE, .limit = 0},
	{.name = "receive buffer deregistered", .op = SEND, .bytes = 100, .recv_bytes = 100, .recv_key = KEY_DEAD, .check = AV_CHECK_KEY_DEAD, .whose = RECEIVERS, .status = IBV_WC_REM_OP_ERR,
	 .responder = true, .receive = IBV_WC_LOC_PROT_ERR, .wanted = ANY, .limit = ANY},
	{.name = "no receive posted", .op = SEND, .bytes = 8, .check = AV_CHECK_RNR_RETRIES, .status = IBV_WC_RNR_RETRY_EXC_ERR, .wanted = 2, .limit = 1},
	{.name = "no receive for an immediate", .op = WRITI, .bytes = 8, .check = AV_CHECK_RNR_RETRIES, .status = IBV_WC_RNR_RETRY_EXC_ERR, .wanted = 2, .limit = 1},
};
/* clang-format on */

/* The key of a SEND WITH INVALIDATE is no window's: the responder fails, and the requester hears
 * nothing. */
static void seed_invalidate(void)
{
	const struct request_row r = {.name = "SEND WITH INVALIDATE of a region's key",
				      .op = IBV_WR_SEND_WITH_INV,
				      .bytes = 8,
				      .recv_bytes = 8,
				      .check = AV_CHECK_INVALIDATE_KEY,
				      .whose = THEIRS,
				      .receive = IBV_WC_LOC_QP_OP_ERR,
				      .wanted = ANY,
				      .limit = ANY};
	const struct seed silent = {r.name, AV_CHECK_PEER_STATE, AV_FLIGHT_REQUEST, IBV_QPS_RTR,
				    IBV_QPS_ERR};
	struct av_flight_record rec;

	row("request: %s", r.name);
	start(&r);
	EXPECT(outcome(&r) == IBV_WC_RETRY_EXC_ERR, "status");
	check_responder(&r);
	recorder_find(&silent, &rec);
	pair_destroy(&a, 0, &b, 0);
}

/* --- nobody answers -------------------------------------------------------------- */

static void other_state(void)
{
	side_set_state(&b, 0, IBV_QPS_RESET);
}

static void is_gone(void)
{
	side_destroy_qp(&b, 0);
}

#define NEVER_GIVEN(qpn) ((qpn) ^ 0x40000) /* nobody here has that number, or had */

static void is_elsewhere(void)
{
	struct node_link link = link_default();

	link.dgid = b.info.gid;
	link.dest_qpn = NEVER_GIVEN(side_qpn(&b, 0));
	side_set_state(&a, 0, IBV_QPS_RESET);
	EXPECT(side_connect(&a, 0, &link) == 0, "connecting again");
}

static void connect_again(const struct node_link *link)
{
	struct node_link l = *link;

	l.dgid = a.info.gid;
	side_set_state(&b, 0, IBV_QPS_RESET);
	EXPECT(side_connect(&b, 0, &l) == 0, "connecting again");
}

static void other_peer(void)
{
	struct node_link link = link_default();

	link.dest_qpn = 0x1234;
	connect_again(&link);
}

static void other_psn(void)
{
	struct node_link link = link_default();

	link.dest_qpn = side_qpn(&a, 0);
	link.rq_psn = 0x777;
	connect_again(&link);
}

static void seed_silence(void)
{
	static const struct {
		struct seed seed;
		void (*spoil)(void);
	} rows[] = {
		{{"peer in RESET", AV_CHECK_PEER_STATE, AV_FLIGHT_REQUEST, IBV_QPS_RTR,
		  IBV_QPS_RESET},
		 other_state},
		{{"peer destroyed", AV_CHECK_PEER_GONE, AV_FLIGHT_REQUEST, ANY, ANY}, is_gone},
		{{"peer elsewhere", AV_CHECK_PEER_ELSEWHERE, AV_FLIGHT_REQUEST, ANY, ANY},
		 is_elsewhere},
		{{"peer of another", AV_CHECK_PEER_OTHER, AV_FLIGHT_REQUEST, ANY, 0x1234},
		 other_peer},
		{{"other PSNs", AV_CHECK_PEER_PSN, AV_FLIGHT_REQUEST, 0x101, 0x777}, other_psn},
	};
	const struct request_row plain = {.op = WRITE, .bytes = 8};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct av_flight_record r;
		uint32_t peer;

		row("request: %s", rows[i].seed.name);
		start(&plain);
		peer = side_qpn(&b, 0);
		if (rows[i].spoil == is_elsewhere)
			peer = NEVER_GIVEN(peer);
		rows[i].spoil();
		EXPECT(outcome(&plain) == IBV_WC_RETRY_EXC_ERR, "status");
		if (recorder_find(&rows[i].seed, &r))
			EXPECT(r.status == IBV_WC_RETRY_EXC_ERR && r.peer_qp == peer &&
				       r.number == side_qpn(&a, 0),
			       "status %u peer %u", r.status, r.peer_qp);
		side_destroy_qp(&a, 0);
		if (rows[i].spoil != is_gone)
			side_destroy_qp(&b, 0);
	}
}

void seed_requests(void)
{
	seed_local();
	seed_remote();
	for (size_t i = 0; i < COUNT_OF(other_rows); i++)
		run(&other_rows[i]);
	seed_invalidate();
	seed_silence();
}
