/* SPDX-License-Identifier: MIT */
/*
 * A network that drops, damages, doubles and reorders packets: between two hosts, every byte and
 * every completion of reliable connections is right. unit.transport.test_link_* judge what becomes
 * of each packet; here, messages are long, and both hosts run at the same time. SEED in the
 * environment: other packets are struck.
 */
#include <arpa/inet.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/two_hosts.h"

#define PATIENCE 60000u	  /* ms */
#define SLOT	 0x50000u /* bytes of arena for a request */
#define SOURCES	 0u
#define TARGETS	 0x400000u
#define WORDS	 0x7f0000u /* atomics */
#define ROUNDS	 6

static struct side a, b;

/* A request of each round, of both sides at once, from slot to slot. */
struct step {
	enum ibv_wr_opcode op;
	uint32_t bytes;
	unsigned int flags;
};

static bool receives(const struct step *s)
{
	return s->op == SEND || s->op == SENDI || s->op == WRITI;
}

static bool has_imm(const struct step *s)
{
	return s->op == SENDI || s->op == WRITI;
}

/* --- both hosts ------------------------------------------------------------------ */

static void stop(void)
{
	side_stop(&b);
	side_stop(&a);
}

/* Timers of 134 ms, and with all retries more than a second: hosts may be busy. */
static struct node_link link_patient(void)
{
	struct node_link l = link_default();

	l.timeout = 15;
	l.retry_cnt = 7;
	l.rnr_retry = 7;
	return l;
}

static void connect_by(const struct node_link *l)
{
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, l, &b, 0, l);
}

/* --- a round --------------------------------------------------------------------- */

static uint64_t at(uint64_t area, int slot)
{
	return area + (uint64_t)slot * SLOT;
}

static uint64_t seed_of(const struct side *from, int round, int slot)
{
	return (uint64_t)(from == &a ? 1000 : 2000) + (uint64_t)round * 50 + (uint64_t)slot;
}

static void prepare(struct side *from, struct side *to, const struct step *steps, int count,
		    int round)
{
	for (int i = 0; i < count; i++) {
		side_fill(from, at(SOURCES, i), steps[i].bytes, seed_of(from, round, i), 0);
		side_fill(to, at(TARGETS, i), steps[i].bytes + 16, 1, 0);
	}
}

static void post_receives(struct side *to, const struct step *steps, int count)
{
	for (int i = 0; i < count; i++)
		if (receives(&steps[i]))
			side_recv_one(to, 0, (uint64_t)i, at(TARGETS, i), steps[i].bytes);
}

static void post_sends(struct side *from, struct side *to, const struct step *steps, int count)
{
	struct node_send list[NODE_LIST] = {0};

	for (int i = 0; i < count; i++) {
		const struct step *s = &steps[i];
		bool back = s->op == READ, word = request_is_atomic(s->op);

		list[i] = (struct node_send){
			.wr_id = (uint64_t)i,
			.opcode = s->op,
			.flags = s->flags | (i == count - 1 ? IBV_SEND_SIGNALED : 0),
			.imm = htonl((uint32_t)i),
			.num_sge = s->bytes ? 1 : 0,
			.sge = {side_sge(from, KEY_FULL,
					 word	? WORDS + 8 + (uint64_t)i * 8
					 : back ? at(TARGETS, i)
						: at(SOURCES, i),
					 s->bytes)},
			.remote_addr = to->info.base[KEY_FULL] + (word	 ? WORDS
								  : back ? at(SOURCES, i)
									 : at(TARGETS, i)),
			.rkey = to->info.key[KEY_FULL],
			.compare_add = REQUEST_GIVEN,
		};
	}
	EXPECT(side_post_send(from, 0, list, count).ret == 0, "post_send");
}

static bool expect_sent(struct side *from, const struct step *steps, int count)
{
	struct ibv_wc wc[NODE_LIST];
	int want = 0, n;

	for (int i = 0; i < count; i++)
		want += (steps[i].flags & IBV_SEND_SIGNALED) || i == count - 1;
	n = side_poll(from, 0, want, PATIENCE, wc);
	if (!EXPECT(n == want, "%d completions of %d", n, want))
		return false;
	for (int i = 0, at = 0; i < count; i++) {
		if (!(steps[i].flags & IBV_SEND_SIGNALED) && i != count - 1)
			continue;
		if (!EXPECT(wc[at].status == IBV_WC_SUCCESS && wc[at].wr_id == (uint64_t)i,
			    "request %d: wr_id %lu, status %d", i, wc[at].wr_id, wc[at].status))
			return false;
		at++;
	}
	return true;
}

static bool expect_received(struct side *to, const struct step *steps, int count)
{
	struct ibv_wc wc[NODE_LIST];
	int want = 0, n, at = 0;

	for (int i = 0; i < count; i++)
		want += receives(&steps[i]);
	n = side_poll(to, 1, want, PATIENCE, wc);
	if (!EXPECT(n == want, "%d receives of %d", n, want))
		return false;
	for (int i = 0; i < count; i++) {
		if (!receives(&steps[i]))
			continue;
		EXPECT(wc[at].status == IBV_WC_SUCCESS && wc[at].wr_id == (uint64_t)i &&
			       wc[at].byte_len == steps[i].bytes,
		       "receive %d: wr_id %lu, status %d, %u bytes", i, wc[at].wr_id, wc[at].status,
		       wc[at].byte_len);
		EXPECT(!has_imm(&steps[i]) || ((wc[at].wc_flags & IBV_WC_WITH_IMM) &&
					       wc[at].imm_data == htonl((uint32_t)i)),
		       "receive %d: immediate", i);
		at++;
	}
	return true;
}

static void expect_bytes(struct side *from, struct side *to, const struct step *steps, int count,
			 int round)
{
	for (int i = 0; i < count; i++) {
		bool back = steps[i].op == READ;

		if (request_is_atomic(steps[i].op))
			continue;
		EXPECT(side_check(back ? from : to, at(TARGETS, i), steps[i].bytes,
				  seed_of(back ? to : from, round, i), 0) == -1,
		       "request %d: bytes", i);
		EXPECT(side_check(back ? from : to, at(TARGETS, i) + steps[i].bytes, 16, 1,
				  steps[i].bytes) == -1,
		       "request %d: bytes behind it", i);
	}
}

/* Each addition took place once, in its order. */
static void expect_words(struct side *from, struct side *to, const struct step *steps, int count,
			 uint64_t *word)
{
	for (int i = 0; i < count; i++) {
		if (!request_is_atomic(steps[i].op))
			continue;
		EXPECT(side_peek(from, WORDS + 8 + (uint64_t)i * 8) == *word,
		       "request %d: %lu, not %lu", i, side_peek(from, WORDS + 8 + (uint64_t)i * 8),
		       *word);
		*word += REQUEST_GIVEN;
	}
	EXPECT(side_peek(to, WORDS) == *word, "the word: %lu, not %lu", side_peek(to, WORDS),
	       *word);
}

static bool both_sent(const struct step *steps, int count)
{
	return expect_sent(&a, steps, count) && expect_sent(&b, steps, count) &&
	       expect_received(&a, steps, count) && expect_received(&b, steps, count);
}

static void expect_no_more(void)
{
	struct ibv_wc wc[NODE_LIST];

	EXPECT(side_poll(&a, 0, 1, 20, wc) == 0 && side_poll(&a, 1, 1, 0, wc) == 0 &&
		       side_poll(&b, 0, 1, 0, wc) == 0 && side_poll(&b, 1, 1, 0, wc) == 0,
	       "a completion that nothing asked for");
}

/* @late_ms: receives are posted so long after the requests */
static void exchange(const struct step *steps, int count, int rounds, unsigned int late_ms)
{
	uint64_t words[2] = {100, 200};

	side_poke(&a, WORDS, words[1]);
	side_poke(&b, WORDS, words[0]);
	for (int round = 0; round < rounds; round++) {
		prepare(&a, &b, steps, count, round);
		prepare(&b, &a, steps, count, round);
		if (!late_ms) {
			post_receives(&a, steps, count);
			post_receives(&b, steps, count);
		}
		post_sends(&a, &b, steps, count);
		post_sends(&b, &a, steps, count);
		if (late_ms) {
			struct ibv_wc wc[1];

			EXPECT(side_poll(&a, 1, 1, late_ms, wc) == 0, "received too early");
			post_receives(&a, steps, count);
			post_receives(&b, steps, count);
		}
		if (!both_sent(steps, count))
			return;
		expect_bytes(&a, &b, steps, count, round);
		expect_bytes(&b, &a, steps, count, round);
		expect_words(&a, &b, steps, count, &words[0]);
		expect_words(&b, &a, steps, count, &words[1]);
	}
	expect_no_more();
}

/* --- reliable connections -------------------------------------------------------- */

#define S IBV_SEND_SIGNALED
#define F IBV_SEND_FENCE

static const struct step mixed[] = {
	{SEND, 1, S},	    {WRITE, 1023, 0}, {SENDI, 1024, 0}, {READ, 1025, S},
	{FAA, 8, 0},	    {WRITI, 2048, S}, {READ, 1, 0},	{SEND, 0, S},
	{WRITE, 100000, 0}, {FAA, 8, S},      {SENDI, 4097, F}, {READ, 300000, S},
};
static const struct step large[] = {
	{SEND, 300000, S}, {READ, 300000, 0},  {WRITI, 299999, S}, {FAA, 8, S},
	{READ, 131073, 0}, {WRITE, 262144, 0}, {READ, 65536, S},   {SENDI, 5, 0},
};
static const struct step small[] = {
	{SEND, 8, 0}, {SEND, 8, S}, {FAA, 8, 0},  {FAA, 8, 0},	{FAA, 8, 0},   {FAA, 8, S},
	{READ, 8, 0}, {READ, 9, 0}, {READ, 0, S}, {SEND, 7, 0}, {WRITE, 6, 0}, {WRITI, 5, S},
};
static const struct step reads[] = {
	{READ, 131072, 0},  {READ, 300000, 0}, {READ, 131073, 0}, {READ, 1024, S},
	{WRITE, 131072, 0}, {READ, 250000, 0}, {FAA, 8, 0},	  {READ, 140000, S},
};

static const struct {
	const char *name, *rules_a, *rules_b;
	const struct step *steps;
	int count;
	uint32_t psn; /* 0: usual */
	uint8_t mtu, rd_atomic;
	unsigned int late_ms;
	int rounds;
} reliable[] = {
#define STEPS(x) x, COUNT_OF(x)
	{"nothing, 256, wrap", "", "", STEPS(large), 0xfffff0, IBV_MTU_256, 4, 0, 2},
	{"reads", "", "", STEPS(reads), 0, IBV_MTU_1024, 4, 0, 3},
	{"late receives, lossy", "drop 3%", "drop 3%", STEPS(small), 0, IBV_MTU_1024, 4, 5, 10},
	{"10 % dropped, 4096", "drop 10%", "drop 10%", STEPS(large), 0, IBV_MTU_4096, 4, 0, 3},
	{"far reordered", "reorder 20 5%", "reorder 20 5%", STEPS(large), 0xffff80, IBV_MTU_1024, 4,
	 0, ROUNDS},
	{"all of it", "drop 2%; duplicate 2 3%; reorder 3 5%; corrupt 1%",
	 "seed 5; drop 2%; duplicate 2 3%; reorder 3 5%; corrupt 1%", STEPS(mixed), 0xfffffe,
	 IBV_MTU_1024, 4, 0, ROUNDS},
	{"all of it, reads", "drop 2%; duplicate 2 3%; reorder 3 5%",
	 "seed 5; drop 2%; duplicate 2 3%; reorder 3 5%", STEPS(reads), 0, IBV_MTU_1024, 4, 0,
	 ROUNDS},
#undef STEPS
};

static void reliable_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(reliable); i++) {
		struct node_link l = link_patient();

		row("reliable: %s", reliable[i].name);
		two_hosts_start(&a, 0, reliable[i].rules_a);
		two_hosts_start(&b, 1, reliable[i].rules_b);
		if (reliable[i].psn)
			l.sq_psn = l.rq_psn = reliable[i].psn;
		l.mtu = reliable[i].mtu;
		l.rd_atomic = l.dest_rd_atomic = reliable[i].rd_atomic;
		connect_by(&l);
		exchange(reliable[i].steps, reliable[i].count, reliable[i].rounds,
			 reliable[i].late_ms);
		pair_destroy(&a, 0, &b, 0);
		stop();
	}
}

/* --- what ends while packets are under way --------------------------------------- */

static const char lossy[] = "drop 2%; duplicate 2 3%; reorder 3 5%";

static void begin(const char *name, const char *rules_a, const char *rules_b)
{
	struct node_link l = link_patient();

	row("%s", name);
	two_hosts_start(&a, 0, rules_a);
	two_hosts_start(&b, 1, rules_b);
	connect_by(&l);
}

static void end(void)
{
	pair_destroy(&a, 0, &b, 0);
	stop();
}

/* Either end goes away while both send. What comes for it is nobody's. */
static void destroyed_under_way(const char *rules)
{
	struct node_link l = link_patient();

	begin("destroyed under way", rules, rules);
	for (int round = 0; round < 10; round++) {
		prepare(&a, &b, large, COUNT_OF(large), round);
		prepare(&b, &a, large, COUNT_OF(large), round);
		post_receives(&a, large, COUNT_OF(large));
		post_receives(&b, large, COUNT_OF(large));
		post_sends(&a, &b, large, COUNT_OF(large));
		post_sends(&b, &a, large, COUNT_OF(large));
		if (round % 2)
			pair_destroy(&a, 0, &b, 0);
		else
			pair_destroy(&b, 0, &a, 0);
		l.sq_psn = l.rq_psn = (uint32_t)round * 7919;
		connect_by(&l);
	}
	exchange(large, COUNT_OF(large), 1, 0);
	end();
}

/* --- faults of requests ---------------------------------------------------------- */

static const struct {
	const char *rules;
	int status;	 /* of the third request, those behind it are flushed if it is none */
	unsigned int ms; /* at least */
} of_requests[] = {
	{"delay 30ms nth 3", IBV_WC_SUCCESS, 30},
	{"lose nth 3", IBV_WC_SUCCESS, 67},
	{"lose 2 nth 3", IBV_WC_SUCCESS, 134},
	{"rnr 3 nth 3", IBV_WC_SUCCESS, 1},
	{"rnr-exhausted nth 3", IBV_WC_RNR_RETRY_EXC_ERR, 0},
	{"retry-exhausted nth 3", IBV_WC_RETRY_EXC_ERR, 0},
	{"peer-death nth 3", IBV_WC_RETRY_EXC_ERR, 500},
	{"status rem-access-err nth 3", IBV_WC_REM_ACCESS_ERR, 0},
	{"status loc-prot-err nth 3", IBV_WC_LOC_PROT_ERR, 0},
	{"evict nth 3", IBV_WC_SUCCESS, 0},
	{"fatal nth 3", IBV_WC_WR_FLUSH_ERR, 0},
	{"delay 1ms; drop 5%; reorder 5%", IBV_WC_SUCCESS, 6},
};

static void requests_have_faults(void)
{
	static const struct step steps[] = {{SEND, 5000, S}, {WRITE, 5000, S}, {READ, 5000, S},
					    {SEND, 10, S},   {FAA, 8, S},      {WRITI, 1, S}};

	for (size_t i = 0; i < COUNT_OF(of_requests); i++) {
		struct ibv_wc wc[NODE_LIST];
		uint64_t before;
		int n;

		begin(of_requests[i].rules, of_requests[i].rules, "");
		prepare(&a, &b, steps, COUNT_OF(steps), 0);
		prepare(&b, &a, steps, COUNT_OF(steps), 0);
		post_receives(&b, steps, COUNT_OF(steps));
		before = now_ms();
		post_sends(&a, &b, steps, COUNT_OF(steps));
		n = side_poll(&a, 0, COUNT_OF(steps), PATIENCE, wc);
		EXPECT(n == COUNT_OF(steps), "%d completions", n);
		EXPECT(now_ms() - before >= of_requests[i].ms, "after %lu ms", now_ms() - before);
		for (int k = 0; k < n; k++) {
			int want = k < 2			    ? IBV_WC_SUCCESS
				   : k > 2 && of_requests[i].status ? IBV_WC_WR_FLUSH_ERR
								    : of_requests[i].status;

			EXPECT(wc[k].wr_id == (uint64_t)k && (int)wc[k].status == want,
			       "request %d: wr_id %lu, status %d, not %d", k, wc[k].wr_id,
			       wc[k].status, want);
		}
		if (!of_requests[i].status)
			expect_bytes(&a, &b, steps, COUNT_OF(steps), 0);
		end();
	}
}

int main(int argc, char **argv)
{
	two_hosts_open(argc, argv);
	time_limit(400);
	reliable_rows();
	destroyed_under_way("");
	destroyed_under_way(lossy);
	requests_have_faults();
	return summary();
}
