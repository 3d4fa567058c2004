/* SPDX-License-Identifier: MIT */
/*
 * How many small messages gather, of how many queue pairs, and for how long: until the next poll,
 * the next packets that come, or 30 us, whichever is first.
 */
#include <string.h>

#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "transport/transport.h"
#include "unit/transport/link_parts.h"

#define GATHER_NS   30000u
#define GATHER_MOST 60u
#define SLOW_NS	    100000u /* of a message; its acknowledgement still is in time */
#define PAIRS	    3u
#define LOG	    256u /* at least what a queue holds */
#define ACTS	    3000u

/* Connections from host 0 to host 1. */
static struct {
	struct link_side side[LINK_HOSTS];
	unsigned int posted, left;
	unsigned int due; /* of these, must have left by now */
	uint64_t posted_ns[LOG];
} pair[PAIRS];

static unsigned int pairs;
static unsigned int order[LOG], leavings; /* which pairs' messages have left, one by one */
static bool packets_came;

/* --- connections ---------------------------------------------------------------------- */

static unsigned int pair_to(uint32_t qpn)
{
	unsigned int i = 0;

	while (i < pairs && atomic_load(&pair[i].side[1].end.qp->qpn) != qpn)
		i++;
	MUST(i < pairs);
	return i;
}

/* Nothing is lost or late: each message leaves once. */
static void note_leaving(const struct link_packet *p)
{
	unsigned int i;

	if (p->from != 0)
		return;
	i = pair_to(p->net->packet.dest_qpn);
	MUST(pair[i].left < pair[i].posted);
	MUST(turned_clock_ns() - pair[i].posted_ns[pair[i].left % LOG] <= GATHER_NS);
	pair[i].left++;
	order[leavings++ % LOG] = i;
}

static void note_arrival(const struct link_arrival *a)
{
	packets_came = true;
	for (unsigned int i = 0; i < pairs; i++)
		pair[i].due = pair[i].posted;
}

/* @slow_ns: of messages. Both hosts are in this process, so what comes to either lets all leave. */
static void connect_pairs(unsigned int count, uint32_t depth, uint64_t slow_ns)
{
	static struct link_exchange e = {.name = "many", .type = IBV_QPT_RC, .fails = true};
	struct link_setting *setting;

	e.depth = depth;
	setting = link_open(&e, NULL, 0);
	setting->sent = note_leaving;
	setting->arrives = note_arrival;
	setting->slow_ns[0] = slow_ns;
	memset(pair, 0, sizeof(pair));
	for (pairs = 0; pairs < count; pairs++) {
		for (unsigned int h = 0; pairs > 0 && h < LINK_HOSTS; h++)
			link_make_side(h);
		for (unsigned int h = 0; pairs > 0 && h < LINK_HOSTS; h++)
			link_connect_side(h);
		memcpy(pair[pairs].side, link_side, sizeof(pair[pairs].side));
	}
	leavings = 0;
}

static bool post(unsigned int i)
{
	const struct link_side *s = &pair[i].side[0], *to = &pair[i].side[1];
	uint32_t tail = atomic_load(&s->end.qp->sq_tail);
	struct av_sq_wqe *wqe = av_sq_slot(&s->end, tail);

	if (tail - atomic_load(&s->end.qp->sq_freed) == s->end.qp->sq_capacity)
		return false;
	*wqe = (struct av_sq_wqe){.opcode = WRITE,
				  .flags = IBV_SEND_SIGNALED,
				  .bytes = 1,
				  .count = 1,
				  .remote_addr = (uintptr_t)to->arena,
				  .rkey = to->key};
	wqe->sge[0] = (struct ibv_sge){(uintptr_t)s->arena, 1, s->key};
	turned_clock_to(turned_clock_ns()); /* at the same moment as others */
	pair[i].posted_ns[pair[i].posted++ % LOG] = turned_clock_ns();
	atomic_store(&s->end.qp->sq_tail, tail + 1);
	av_sq_progress(&s->end, NULL);
	return true;
}

/* Until a poll finds nothing: then nothing gathers. */
static void poll(void)
{
	struct link_side *s = &link_side[0];
	struct ibv_wc wc;

	while (av_poll(s->seg, av_cq_at(s->seg, s->send_cq), 1, &wc, NULL) > 0)
		MUST_BE(wc.status, IBV_WC_SUCCESS);
	for (unsigned int i = 0; i < pairs; i++)
		MUST_BE(pair[i].left, pair[i].posted);
}

static void step_to_end(void)
{
	while (link_step()) {
		for (unsigned int i = 0; packets_came && i < pairs; i++)
			MUST(pair[i].left >= pair[i].due);
		packets_came = false;
	}
}

static void disconnect_pairs(void)
{
	step_to_end();
	poll();
	while (pairs-- > 0) {
		memcpy(link_side, pair[pairs].side, sizeof(pair[pairs].side));
		for (unsigned int h = 0; pairs > 0 && h < LINK_HOSTS; h++)
			link_destroy_side(h);
	}
	link_close();
	pairs = 0;
}

/* --- tests ---------------------------------------------------------------------------- */

/* As long as nobody polls and nothing comes. */
TEST(so_many)
{
	static const uint32_t depths[] = {2, 3, 32, 61, 62, 64, 121, 128};

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(depths); i++) {
		connect_pairs(1, depths[i], SLOW_NS);
		for (unsigned int n = 1; post(0); n++)
			MUST_BE(pair[0].left, n == pair[0].side[0].end.qp->sq_capacity
						      ? n
						      : 1 + (n - 1) / GATHER_MOST * GATHER_MOST);
		disconnect_pairs();
	}
}

/* A poll lets all leave, in the order in which they began. */
TEST(in_turn)
{
	static const unsigned int posts[] = {1, 0, 0, 2, 0, 1, 0, 2, 0, 0};
	static const unsigned int leave[] = {1, 1, 0, 0, 0, 0, 0, 0, 2, 2};

	(void)state;
	connect_pairs(PAIRS, 32, SLOW_NS);
	for (unsigned int i = 0; i < PAIRS; i++)
		assert_true(post(i)); /* and leaves */
	MUST_BE(leavings, PAIRS);
	leavings = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(posts); i++)
		assert_true(post(posts[i]));
	MUST_BE(leavings, 0);
	poll();
	MUST_BE(leavings, AV_ARRAY_SIZE(leave));
	assert_memory_equal(order, leave, sizeof(leave));
	disconnect_pairs();
}

/* One that fills its queue again and again neither keeps another waiting, nor makes it leave. */
TEST(beside_a_flood)
{
	(void)state;
	connect_pairs(2, 64, SLOW_NS); /* both fit the completion queue */
	assert_true(post(0));
	assert_true(post(1));
	assert_true(post(1));
	while (post(0))
		;
	MUST_BE(pair[1].left, 1);
	while (pair[1].left < 2)
		assert_true(link_step());
	MUST_BE(turned_clock_ns() - pair[1].posted_ns[1], GATHER_NS);
	disconnect_pairs();
}

static unsigned int acts;
static uint32_t seed;

static uint32_t chance(uint32_t of)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % of;
}

static void act(void)
{
	if (chance(6) == 0)
		poll();
	else
		(void)post(chance(PAIRS));
	if (++acts < ACTS)
		link_call_at(turned_clock_ns() + chance(GATHER_NS / 2), act);
}

/* At any times of posts and polls, and however long messages are under way. */
TEST(no_longer)
{
	static const uint64_t slow_ns[] = {0, 500, GATHER_NS / 2, GATHER_NS, SLOW_NS};

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(slow_ns); i++) {
		connect_pairs(PAIRS, 32, slow_ns[i]);
		acts = 0;
		link_call_at(turned_clock_ns(), act);
		step_to_end();
		MUST_BE(acts, ACTS);
		disconnect_pairs();
	}
}

int main(void)
{
	turned_clock_asks = 16 * LOG;
	return run_cases(link_set_up, link_tear_down);
}
