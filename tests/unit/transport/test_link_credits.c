/* SPDX-License-Identifier: MIT */
/*
 * A requester sends no more messages than will find a receive request, as far as it has been told;
 * without any, the first packet of one, and the others when that one is acknowledged. Source: IBTA
 * volume 1, 9.7.7.2, and the table of its codes.
 */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

#define RNR	 0x20u
#define NO_LIMIT 0x1fu

static const uint32_t credits_of[] = {0,    1,	  2,	3,     4,     6,     8,	   12,
				      16,   24,	  32,	48,    64,    96,    128,  192,
				      256,  384,  512,	768,   1024,  1536,  2048, 3072,
				      4096, 6144, 8192, 12288, 16384, 24576, 32768};

static uint32_t first_psn, packets; /* of each message */
static uint32_t acked, told;	    /* messages */
static uint32_t acked_packets;
static unsigned int naks;
static uint64_t begun_ns;

static void begin(const struct link_exchange *e)
{
	packets = (e->request[0].bytes + 255) / 256;
	naks = 0;
}

static void hear(const struct link_arrival *a)
{
	const struct av_packet *p = &a->net->packet;

	if (a->from == 0)
		return;
	if (p->syndrome <= NO_LIMIT && av_psn_distance(first_psn, p->psn) >= (int32_t)acked_packets)
		acked_packets = (uint32_t)av_psn_distance(first_psn, p->psn) + 1;
	if (p->msn > acked)
		acked = p->msn;
	if (p->syndrome < NO_LIMIT && p->msn + credits_of[p->syndrome] > told)
		told = p->msn + credits_of[p->syndrome];
}

static void see(const struct link_packet *p)
{
	uint32_t psn = p->net->packet.psn, message;

	if (p->from == 1) {
		naks += p->net->packet.syndrome >> 5 == RNR >> 5;
		return;
	}
	if (p->number == 0) {
		first_psn = psn;
		acked = told = acked_packets = 0;
		begun_ns = turned_clock_ns();
	}
	message = (uint32_t)av_psn_distance(first_psn, psn) / packets;
	if (message < told || acked_packets > message * packets)
		return;
	if (message != acked || (uint32_t)av_psn_distance(first_psn, psn) % packets)
		link_fail("packet %u: message %u, of %u acknowledged and %u told", p->number,
			  message, acked, told);
}

static void run(const struct link_exchange *e, void (*how)(const struct link_exchange *e))
{
	begin(e);
	link_on_sent = see;
	link_on_arrival = hear;
	how(e);
	link_on_sent = NULL;
	link_on_arrival = NULL;
}

static void once(const struct link_exchange *e)
{
	(void)link_run(e, NULL, 0);
}

static const struct link_exchange rows[] = {
	{.name = "as many as there are",
	 .type = IBV_QPT_RC,
	 .request = {POST(SEND, 1), POST(SEND, 1), POST(SEND, 1), POST(SEND, 1), POST(SEND, 1),
		     POST(SEND, 1)}},
	{.name = "long ones",
	 .type = IBV_QPT_RC,
	 .request = {POST(SEND, 600), POST(SEND, 600), POST(SEND, 600)}},
	{.name = "none at first",
	 .type = IBV_QPT_RC,
	 .late_ns = LINK_RNR_NS / 2,
	 .request = {POST(SEND, 600), POST(SEND, 600), POST(SEND, 600)}},
	{.name = "WRITE with immediate data",
	 .type = IBV_QPT_RC,
	 .late_ns = LINK_RNR_NS / 2,
	 .request = {POST(WRITE_IMM, 300), POST(WRITE_IMM, 300), POST(WRITE_IMM, 300)}},
};

TEST(whatever_happens)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		run(&rows[i], link_each);
		run(&rows[i], link_each_two);
	}
}

/* One tells how many there are; the code of nineteen is that of sixteen. */
TEST(in_three_rounds)
{
	struct link_exchange e = {.name = "twenty messages", .type = IBV_QPT_RC};

	for (unsigned int r = 0; r < LINK_REQUESTS; r++)
		e.request[r] = (struct link_request)POST(SEND, 1);
	run(&e, once);
	assert_int_equal(naks, 0);
	assert_int_equal(link_side[0].last_ns - begun_ns, 3 * 2 * LINK_NS);
}

/* The message whose first packet has come has a receive request: it is told with those that wait.
 */
TEST(the_one_that_comes)
{
	static const struct link_exchange e = {
		.name = "three long ones",
		.type = IBV_QPT_RC,
		.request = {POST(SEND, 600), POST(SEND, 600), POST(SEND, 600)}};

	run(&e, once);
	assert_int_equal(naks, 0);
	assert_int_equal(link_side[0].last_ns - begun_ns, 2 * 2 * LINK_NS);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
