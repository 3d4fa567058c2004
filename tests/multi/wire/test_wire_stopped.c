/* SPDX-License-Identifier: MIT */
/*
 * A process is stopped (SIGSTOP, a debugger) while another host talks to it. For less than the
 * retry time: everything completes, and every byte is right. For longer: the requester hears
 * IBV_WC_RETRY_EXC_ERR, its other connections go on all the while, and once the stopped process
 * goes on, what it still sends is nobody's; both connect anew, and nothing of before is in the way.
 */
#include <signal.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/two_hosts.h"

#define PATIENCE 60000u /* ms */
#define MESSAGES 8
#define BYTES	 20000u /* one less for each message */
#define SLOT	 0x10000u
#define SOURCES	 0u
#define TARGETS	 0x200000u
#define BESIDE	 0x500000u /* of the bystander */
#define WORDS	 0x700000u
#define GUARD	 16u
#define EMPTY	 1u	   /* seed of what is in targets before */
#define LATER	 0x300000u /* PSNs of the next connection */
#define STOP_MS	 1200u	   /* of the responder: more than one timer, much less than all of them */

enum { A, B, BYSTANDER, SIDES };

static struct side side[SIDES];

static const enum ibv_wr_opcode every[] = {SEND, WRITE, READ, FAA, WRITI};

/* What @a asks of @b while one of them is stopped. */
static const struct {
	const char *name;
	const enum ibv_wr_opcode *ops; /* in turn */
	size_t count;
	int stopped;
	bool gives_up; /* it goes on when the requester has given up */
	uint8_t timeout, retries;
} rows[] = {
#define ALL    every, COUNT_OF(every)
#define ONE(i) &every[i], 1
	{"responder, short", ALL, B, false, 18, 7},
	{"responder, short, reads", ONE(2), B, false, 18, 7},
	/* The answers have come in time, and wait for it. */
	{"requester, longer than its timer", ALL, A, false, 19, 0},
	{"requester, longer than its timer, reads", ONE(2), A, false, 19, 0},
	{"responder, long", ALL, B, true, 12, 2},
	{"responder, long, sends", ONE(0), B, true, 12, 2},
	{"responder, long, writes", ONE(1), B, true, 12, 2},
	{"responder, long, reads", ONE(2), B, true, 12, 2},
	{"responder, long, atomics", ONE(3), B, true, 12, 2},
#undef ALL
#undef ONE
};

/* --- stopping --------------------------------------------------------------------- */

static void go_on(int which)
{
	kill(side[which].pid, SIGCONT);
}

/* --- messages --------------------------------------------------------------------- */

static uint64_t at(uint64_t area, int slot)
{
	return area + (uint64_t)slot * SLOT;
}

static uint32_t bytes_of(enum ibv_wr_opcode op, int i)
{
	return request_is_atomic(op) ? 8 : BYTES - (uint32_t)i;
}

static uint64_t seed_of(int round, int i)
{
	return 1000 + (uint64_t)(round * MESSAGES + i);
}

static enum ibv_wr_opcode op_of(size_t r, int i)
{
	return rows[r].ops[(size_t)i % rows[r].count];
}

static void prepare(size_t r, int round)
{
	for (int i = 0; i < MESSAGES; i++) {
		bool back = op_of(r, i) == READ;

		side_fill(&side[back ? B : A], at(SOURCES, i), BYTES, seed_of(round, i), 0);
		side_fill(&side[back ? A : B], at(TARGETS, i), BYTES + GUARD, EMPTY, 0);
		if (request_receives(op_of(r, i)))
			side_recv_one(&side[B], 0, (uint64_t)i, at(TARGETS, i), BYTES);
	}
	side_poke(&side[B], WORDS, 100);
}

static void post(size_t r)
{
	struct node_send list[MESSAGES] = {0};

	for (int i = 0; i < MESSAGES; i++) {
		enum ibv_wr_opcode op = op_of(r, i);
		uint64_t here = at(SOURCES, i), there = at(TARGETS, i);

		if (op == READ) {
			here = at(TARGETS, i);
			there = at(SOURCES, i);
		} else if (request_is_atomic(op)) {
			here = WORDS + 8 + (uint64_t)i * 8;
			there = WORDS;
		}
		list[i] = (struct node_send){
			.wr_id = (uint64_t)i,
			.opcode = op,
			.flags = IBV_SEND_SIGNALED,
			.num_sge = 1,
			.sge = {side_sge(&side[A], KEY_FULL, here, bytes_of(op, i))},
			.remote_addr = side[B].info.base[KEY_FULL] + there,
			.rkey = side[B].info.key[KEY_FULL],
			.compare_add = REQUEST_GIVEN,
		};
	}
	EXPECT(side_post_send(&side[A], 0, list, MESSAGES).ret == 0, "post_send");
}

static int receives_in(size_t r)
{
	int count = 0;

	for (int i = 0; i < MESSAGES; i++)
		count += request_receives(op_of(r, i));
	return count;
}

/* Messages that arrive are those that were sent, in order. @all: each does. */
static void expect_received(size_t r, int round, bool all)
{
	struct ibv_wc wc[MESSAGES + 1];
	int n = side_poll(&side[B], 1, receives_in(r) + !all, all ? PATIENCE : 100, wc), k = 0;

	EXPECT(n <= receives_in(r) && (!all || n == receives_in(r)), "%d receives of %d", n,
	       receives_in(r));
	for (int i = 0; i < MESSAGES && k < n; i++) {
		if (!request_receives(op_of(r, i)))
			continue;
		EXPECT(wc[k].wr_id == (uint64_t)i && wc[k].status == IBV_WC_SUCCESS &&
			       (op_of(r, i) == WRITI || wc[k].byte_len == bytes_of(SEND, i)),
		       "receive %d: wr_id %lu, status %d, %u bytes", i, wc[k].wr_id, wc[k].status,
		       wc[k].byte_len);
		EXPECT(side_check(&side[B], at(TARGETS, i), bytes_of(SEND, i), seed_of(round, i),
				  0) == -1,
		       "message %d: bytes", i);
		k++;
	}
}

static void expect_guards(size_t r)
{
	for (int i = 0; i < MESSAGES; i++)
		EXPECT(side_check(&side[op_of(r, i) == READ ? A : B],
				  at(TARGETS, i) + bytes_of(SEND, i), GUARD, EMPTY,
				  bytes_of(SEND, i)) == -1,
		       "request %d: bytes behind it", i);
}

/* All has been executed once. */
static void expect_bytes(size_t r, int round)
{
	uint64_t word = 100;

	for (int i = 0; i < MESSAGES; i++) {
		enum ibv_wr_opcode op = op_of(r, i);
		uint64_t found;

		if (!request_is_atomic(op)) {
			EXPECT(side_check(&side[op == READ ? A : B], at(TARGETS, i),
					  bytes_of(op, i), seed_of(round, i), 0) == -1,
			       "request %d: bytes", i);
			continue;
		}
		found = side_peek(&side[A], WORDS + 8 + (uint64_t)i * 8);
		EXPECT(found == word, "request %d found %lu, not %lu", i, found, word);
		word += REQUEST_GIVEN;
	}
	EXPECT(side_peek(&side[B], WORDS) == word, "the word");
	expect_guards(r);
}

static void expect_no_more(void)
{
	struct ibv_wc wc[1];

	for (int s = A; s <= B; s++)
		for (int cq = 0; cq < 2; cq++)
			EXPECT(side_poll(&side[s], cq, 1, 0, wc) == 0,
			       "a completion that nothing asked for");
}

/* --- bystanders ------------------------------------------------------------------- */

/* A WRITE of side @from's queue pair, whose completions come to CQ @cq. */
static void write_one(int from, int qp, int cq, int to, uint64_t seed)
{
	struct node_send s = side_rdma_to(WRITE, side_sge(&side[from], KEY_FULL, BESIDE, BYTES),
					  &side[to], BESIDE + SLOT);
	struct ibv_wc wc[1];

	side_fill(&side[from], BESIDE, BYTES, seed, 0);
	EXPECT(side_post_send(&side[from], qp, &s, 1).ret == 0, "post_send");
	EXPECT(side_poll(&side[from], cq, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "beside: status %d", wc[0].status);
	EXPECT(side_check(&side[to], BESIDE + SLOT, BYTES, seed, 0) == -1, "beside: bytes");
}

/* The requester's other connection, both ways. */
static void bystanders_go_on(void)
{
	for (uint64_t i = 0; i < 5; i++) {
		write_one(A, 1, 2, BYSTANDER, 10 + i);
		write_one(BYSTANDER, 0, 0, A, 20 + i);
	}
}

/* --- rows ------------------------------------------------------------------------- */

static struct node_link link_patient(uint32_t psn)
{
	struct node_link l = link_default();

	l.timeout = 17; /* 0.5 s, and 4 s with all retries */
	l.retry_cnt = l.rnr_retry = 7;
	l.sq_psn = l.rq_psn = psn;
	return l;
}

static void connect_all(size_t r)
{
	const struct node_link patient = link_patient(0x101);
	struct node_qp_spec beside = spec_default(), other = beside;

	EXPECT(side_create_cq(&side[A], 2, 16, false) == 0, "ibv_create_cq");
	beside.send_cq = 2;
	NEED(side_create_qp(&side[A], 1, &beside, NULL) == 0);
	NEED(side_create_qp(&side[BYSTANDER], 0, &other, NULL) == 0);
	pair_connect(&side[A], 1, &patient, &side[BYSTANDER], 0, &patient);
	pair_create(&side[A], 0, &side[B], 0, NULL);
	pair_connect(&side[A], 0, &patient, &side[B], 0, &patient);
	write_one(A, 0, 0, B, 5); /* and neighbours know each other */
	side_set_patience(&side[A], 0, rows[r].timeout, rows[r].retries);
}

static void reset(int which)
{
	EXPECT(side_set_state(&side[which], 0, IBV_QPS_RESET) == 0, "to RESET");
}

/* The requester's queue pair serves another connection while late answers to the old one come. */
static void used_elsewhere(void)
{
	const struct node_link l = link_patient(LATER);

	struct node_qp_spec spec = spec_default();

	reset(A);
	NEED(side_create_qp(&side[BYSTANDER], 1, &spec, NULL) == 0);
	pair_connect(&side[A], 0, &l, &side[BYSTANDER], 1, &l);
	go_on(B);
	for (uint64_t i = 0; i < 10; i++)
		write_one(A, 0, 0, BYSTANDER, 30 + i);
	reset(A);
}

static void stopped_for_long(size_t r)
{
	side_expect_sent(&side[A], MESSAGES, PATIENCE, IBV_WC_RETRY_EXC_ERR);
	EXPECT(side_state(&side[A], 0) == IBV_QPS_ERR, "state %d", side_state(&side[A], 0));
	bystanders_go_on();
	used_elsewhere();
	EXPECT(side_state(&side[B], 0) == IBV_QPS_RTS, "state %d", side_state(&side[B], 0));
	expect_received(r, 0, false);
	expect_guards(r);
	reset(B);
}

/* The responder was stopped while the requests were posted: they are under way. */
static void requester_is_stopped(size_t r)
{
	side_suspend(&side[A]);
	go_on(B);
	usleep((useconds_t)(4096e-3 * (1 << rows[r].timeout) * 1.5));
	go_on(A);
}

static void stopped_for_short(size_t r)
{
	struct ibv_wc wc[1];

	if (rows[r].stopped == B) {
		bystanders_go_on();
		EXPECT(side_poll(&side[A], 0, 1, STOP_MS, wc) == 0, "done without its peer");
		go_on(B);
	} else {
		requester_is_stopped(r);
	}
	side_expect_sent(&side[A], MESSAGES, PATIENCE, IBV_WC_SUCCESS);
	expect_received(r, 0, true);
	expect_bytes(r, 0);
	expect_no_more();
	reset(A);
	reset(B);
}

/* Both connect anew, with the same queue pairs. */
static void again(size_t r)
{
	const struct node_link l = link_patient(2 * LATER);

	pair_connect(&side[A], 0, &l, &side[B], 0, &l);
	prepare(r, 1);
	post(r);
	side_expect_sent(&side[A], MESSAGES, PATIENCE, IBV_WC_SUCCESS);
	expect_received(r, 1, true);
	expect_bytes(r, 1);
	expect_no_more();
	bystanders_go_on();
}

int main(int argc, char **argv)
{
	two_hosts_open(argc, argv);
	time_limit(200);
	for (size_t r = 0; r < COUNT_OF(rows); r++) {
		row("%s", rows[r].name);
		two_hosts_start(&side[A], 0, "");
		two_hosts_start(&side[B], 1, "");
		two_hosts_start(&side[BYSTANDER], 1, "");
		connect_all(r);
		prepare(r, 0);
		side_suspend(&side[B]);
		post(r);
		if (rows[r].gives_up)
			stopped_for_long(r);
		else
			stopped_for_short(r);
		again(r);
		for (int s = 0; s < SIDES; s++)
			side_stop(&side[s]);
	}
	return summary();
}
