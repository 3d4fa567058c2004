/* SPDX-License-Identifier: MIT */
/*
 * A receiver that is behind: its sender goes on whatever the receiver does next, and nothing is
 * lost or comes in another order.
 *
 * The receiver's queue is long and it has completions to poll, so that what it posts resumes the
 * sender in a batch, or when it polls in vain, or arms its CQ; or it does none of these, and the
 * sender's RNR timer does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define QUEUE	 64u
#define BATCH	 8u /* receives that resume a sender at once: an eighth of the queue */
#define BYTES	 8u
#define SEND_AT	 0x1000u
#define RECV_AT	 0x10000u
#define PATIENCE 20000u
#define MESSAGES (TEST_SANITIZED ? 40000u : 200000u)
#define TIMER	 31u /* 492 ms: what ends sooner was not ended by it */
#define EARLY_MS 300u
#define ATTEMPTS 8 /* a busy host only makes it longer, so the best counts */

static struct side a, b;
static uint64_t sent, received, posted;

static struct node_qp_spec long_queue(void)
{
	struct node_qp_spec spec = spec_default();

	spec.cap.max_send_wr = spec.cap.max_recv_wr = QUEUE;
	return spec;
}

static void connect_row(uint8_t rnr_retry, uint8_t timer)
{
	struct node_link la = link_default(), lb = link_default();
	struct node_qp_spec spec = long_queue();

	sent = received = posted = 0;
	la.rnr_retry = rnr_retry;
	lb.min_rnr_timer = timer;
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, &la, &b, 0, &lb);
}

static void send_some(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++, sent++) {
		struct node_send s = {
			.wr_id = sent,
			.opcode = IBV_WR_SEND,
			.flags = IBV_SEND_SIGNALED,
			.num_sge = 1,
			.sge = {side_sge(&a, KEY_FULL, SEND_AT + sent % QUEUE * 8, BYTES)}};

		side_poke(&a, SEND_AT + sent % QUEUE * 8, sent);
		EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
	}
}

static void post_some(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++, posted++)
		side_recv_one(&b, 0, posted, RECV_AT + posted % QUEUE * 8, BYTES);
}

static void receive_some(unsigned int count)
{
	struct ibv_wc wc[NODE_LIST];
	int got = side_poll(&b, 1, (int)count, PATIENCE, wc);

	EXPECT(got == (int)count, "%d messages instead of %u", got, count);
	for (int i = 0; i < got; i++, received++) {
		EXPECT(wc[i].wr_id == received && wc[i].status == IBV_WC_SUCCESS,
		       "receive %lu: '%s'", wc[i].wr_id, ibv_wc_status_str(wc[i].status));
		EXPECT(side_peek(&b, RECV_AT + received % QUEUE * 8) == received, "its bytes");
	}
}

static int sends_done(unsigned int count, unsigned int ms)
{
	struct ibv_wc wc[NODE_LIST];
	int got = side_poll(&a, 0, (int)count, ms, wc);

	for (int i = 0; i < got; i++)
		EXPECT(wc[i].status == IBV_WC_SUCCESS, "send %lu: '%s'", wc[i].wr_id,
		       ibv_wc_status_str(wc[i].status));
	return got;
}

/* What the receiver does once it is behind. Each takes the CQ, which holds 4 completions, and the
 * queue, which holds no request. */
static void post_one_with_a_backlog(void)
{
	post_some(1);
}

static void post_a_batch(void)
{
	post_some(BATCH);
}

static void poll_in_vain(void)
{
	struct ibv_wc wc[1];

	post_some(1);
	receive_some(4);
	/* What is resumed arrives here, so this ends as soon as it does. */
	EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 && wc[0].wr_id == received, "no message");
	received++;
}

static void arm(void)
{
	post_some(1);
	receive_some(4);
	EXPECT(side_arm(&b, 1, 0) == 0, "arming");
}

static void post_with_nothing_to_poll(void)
{
	receive_some(4);
	post_some(1);
}

static const struct {
	const char *name;
	void (*act)(void);
	unsigned int goes; /* messages that go then */
	bool early;	   /* sooner than by the RNR timer */
} ways[] = {
	{"the timer alone resumes the sender", post_one_with_a_backlog, 1, false},
	{"a batch of receives does", post_a_batch, BATCH, true},
	{"polling in vain does", poll_in_vain, 1, true},
	{"arming does", arm, 1, true},
	{"a receive does, without a backlog", post_with_nothing_to_poll, 1, true},
};

/* The sender's best time, in ms, from the receiver's act on. */
static uint64_t resume_once(size_t i)
{
	uint64_t begin;

	connect_row(6, TIMER);
	post_some(4);
	send_some(4 + ways[i].goes);
	EXPECT(sends_done(4, PATIENCE) == 4, "the first ones");
	EXPECT(sends_done(1, 10) == 0, "sent to no receive");
	begin = now_ms();
	ways[i].act();
	EXPECT(sends_done(ways[i].goes, PATIENCE) == (int)ways[i].goes, "the sender sleeps");
	begin = now_ms() - begin;
	receive_some((unsigned int)(sent - received));
	pair_destroy(&a, 0, &b, 0);
	return begin;
}

static void resume_row(size_t i)
{
	uint64_t took = UINT64_MAX, once;
	int attempt = 0;

	row("%s", ways[i].name);
	do {
		once = resume_once(i);
		took = once < took ? once : took;
	} while (ways[i].early && took > EARLY_MS && ++attempt < ATTEMPTS);
	if (ways[i].early)
		EXPECT(took <= EARLY_MS, "%lu ms at best", took);
}

/* --- many messages to a receiver that is slow, and posts as many as it likes ----- */

enum job { JOB_RECEIVE = 1 };

static uint32_t below(uint64_t *state, uint32_t n)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33) % n;
}

struct slow {
	struct node *n;
	uint64_t state, posted, received, count;
	bool events;
};

static bool slow_post(struct slow *s, uint32_t count)
{
	uint64_t at = s->posted % QUEUE * 8;
	struct node_recv r = {.num_sge = 1};

	for (uint32_t i = 0; i < count && s->posted - s->received < QUEUE; i++) {
		at = s->posted % QUEUE * 8;
		r.wr_id = s->posted++;
		r.sge[0] = (struct ibv_sge){s->n->info.base[KEY_FULL] + RECV_AT + at, BYTES,
					    s->n->info.lkey[KEY_FULL]};
		if (node_post_recv(s->n, 0, &r, 1).ret)
			return false;
	}
	return true;
}

/* Return: the number of the message that is wrong, + 1; 0: none */
static uint64_t slow_take(struct slow *s, struct ibv_wc *wc, int got)
{
	for (int i = 0; i < got; i++, s->received++) {
		uint64_t word;

		memcpy(&word, s->n->arena + RECV_AT + s->received % QUEUE * 8, sizeof(word));
		if (wc[i].status != IBV_WC_SUCCESS || wc[i].wr_id != s->received ||
		    word != s->received)
			return s->received + 1;
	}
	return 0;
}

/* It posts and polls in batches of any size, and now and then waits for an event. */
static uint64_t slow_receiver(struct node *n, const struct side_job *job)
{
	struct slow s = {.n = n, .state = job->arg[0], .count = job->arg[1], .events = job->arg[2]};
	uint64_t end = now_ms() + 120000, wrong;
	struct ibv_wc wc[NODE_LIST];

	while (s.received < s.count && now_ms() < end) {
		int got;

		if (!slow_post(&s, below(&s.state, 2 * QUEUE)))
			return UINT64_MAX;
		for (uint32_t rounds = below(&s.state, 8); rounds > 0; rounds--) {
			got = ibv_poll_cq(n->cq[1], 1 + (int)below(&s.state, NODE_LIST), wc);
			wrong = got < 0 ? s.received + 1 : slow_take(&s, wc, got);
			if (wrong)
				return wrong;
		}
		if (s.events && below(&s.state, 256) == 0) {
			node_arm(n, 1, 0);
			(void)node_comp_event(n, 5);
		}
	}
	return s.received < s.count ? s.received + 1 : 0;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	return slow_receiver(n, job);
}

/* Keep the send queue full until all are done. */
static void flood(uint64_t count)
{
	uint64_t done = 0, end = now_ms() + 120000;
	struct ibv_wc wc[NODE_LIST];

	while (done < count && now_ms() < end) {
		int got;

		while (sent < count && sent - done < QUEUE)
			send_some(1);
		got = ibv_poll_cq(a.node->cq[0], NODE_LIST, wc);
		for (int i = 0; i < got; i++, done++)
			if (!EXPECT(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == done,
				    "send %lu: '%s'", wc[i].wr_id, ibv_wc_status_str(wc[i].status)))
				return;
	}
	EXPECT(done == count, "%lu of %lu were sent", done, count);
}

static void stress_row(uint64_t seed, uint8_t rnr_retry, bool events)
{
	struct side_job job = {.arg = {seed, MESSAGES, events}};
	uint64_t wrong;

	row("%u messages to a slow receiver%s, rnr_retry %d, seed %lu", MESSAGES,
	    events ? " with events" : "", rnr_retry, seed);
	connect_row(rnr_retry, 1);
	side_begin(&b, &job);
	flood(MESSAGES);
	wrong = side_end(&b);
	EXPECT(wrong == 0, "message %lu is lost, late or wrong", wrong - 1);
	pair_destroy(&a, 0, &b, 0);
}

int main(int argc, char **argv)
{
	uint64_t seed = (uint64_t)now_ns();

	side_work = work;
	sides_begin(argc, argv, 230);
	side_open(&a, NULL);
	side_start(&b);
	for (size_t i = 0; i < COUNT_OF(ways); i++)
		resume_row(i);
	stress_row(seed, 7, false);
	stress_row(seed + 1, 7, true);
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
