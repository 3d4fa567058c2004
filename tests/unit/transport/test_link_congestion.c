/* SPDX-License-Identifier: MIT */
/*
 * Packets that have met congestion on their way: their receiver tells their sender, at most once in
 * 50 microseconds, and that one sends less. Source: IBTA volume 1, annex A17.9.
 */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "transport/wire_qp.h"
#include "unit/transport/link_fixture.h"

#define CNP	0x81u
#define ACK	0x11u	/* of a reliable connection */
#define FIRST	131072u /* bytes of a window at first */
#define EACH_NS 50000u
#define LOSS_NS 1000000u /* a window is halved once in that time */

static unsigned int told[LINK_HOSTS], acknowledged;
static uint64_t told_ns[LINK_HOSTS], begun_ns;

static void note(const struct link_packet *p)
{
	uint64_t now = turned_clock_ns();

	if (p->number == 0)
		begun_ns = now;
	acknowledged += p->net->packet.opcode == ACK;
	if (p->net->packet.opcode != CNP)
		return;
	if (told[p->from] && now - told_ns[p->from] < EACH_NS)
		link_fail("packet %u tells too soon", p->number);
	told[p->from]++;
	told_ns[p->from] = now;
}

/* Return: bytes of host 0's window afterwards */
static uint32_t run(const struct link_exchange *e)
{
	const union ibv_gid peer = link_gid(1);
	struct av_window *w = av_window_join(peer.raw);
	uint32_t bytes;

	told[0] = told[1] = acknowledged = 0;
	link_on_sent = note;
	(void)link_run(e, NULL, 0);
	link_on_sent = NULL;
	bytes = av_window_share(w);
	av_window_leave(w);
	return bytes;
}

/* Twenty packets at once are told of once; their acknowledgement is marked, too. */
TEST(once)
{
	static const struct link_exchange e = {.name = "many at once",
					       .type = IBV_QPT_RC,
					       .congested = true,
					       .request = {POST(WRITE, 5120)}};
	uint32_t bytes = run(&e);

	assert_int_equal(told[1], 1);
	assert_int_equal(told_ns[1] - begun_ns, LINK_NS);
	assert_int_equal(told[0], 1);
	assert_in_range(bytes, FIRST / 2, FIRST / 2 + 256);
}

/* Then each acknowledgement widens the window by half a packet. */
TEST(nobody_otherwise)
{
	static const struct link_exchange e = {
		.name = "no congestion", .type = IBV_QPT_RC, .request = {POST(WRITE, 5120)}};
	uint32_t bytes = run(&e);

	assert_int_equal(told[0] + told[1], 0);
	assert_in_range(acknowledged, 1, 20);
	assert_int_equal(bytes, FIRST + acknowledged * 256 / 2);
}

/* However many messages it acknowledges: the first leaves alone, the others gather. */
TEST(as_often_as_it_is_told)
{
	static const struct link_exchange e = {.name = "many messages",
					       .type = IBV_QPT_RC,
					       .request = {POST(WRITE, 1), POST(WRITE, 1),
							   POST(WRITE, 1), POST(WRITE, 1),
							   POST(WRITE, 1), POST(WRITE, 1)}};
	uint32_t bytes = run(&e);

	assert_in_range(acknowledged, 1, 3);
	assert_int_equal(bytes, FIRST + acknowledged * 256 / 2);
}

/* Again when its time has passed: each request waits for a receive request of its own. */
TEST(again_later)
{
	static const struct link_exchange e = {.name = "for long",
					       .type = IBV_QPT_RC,
					       .srq = true,
					       .congested = true,
					       .late_ns = 2 * LOSS_NS,
					       .request = {POST(SEND, 1)}};
	uint32_t bytes = run(&e);

	assert_in_range(told[1], 2 * LOSS_NS / (2 * EACH_NS), 2 * LOSS_NS / EACH_NS + 1);
	assert_in_range(bytes, FIRST / 8, FIRST / 4 + 256);
}

/* Unreliable connections are told, too; whatever happens to the packets. */
TEST(whatever_happens)
{
	static const struct link_exchange rows[] = {
		{.name = "unreliable",
		 .type = IBV_QPT_UC,
		 .congested = true,
		 .request = {POST(SEND, 300), POST(WRITE, 300)}},
		{.name = "both ways",
		 .type = IBV_QPT_RC,
		 .congested = true,
		 .request = {POST(SEND, 300), BACK(READ, 300), POST(FAA, 8)}},
	};

	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
