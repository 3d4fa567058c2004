/* SPDX-License-Identifier: MIT */
/* A receiver that is not ready, whatever happens to packets. Source: IBTA volume 1, 9.7.5.2.8. */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "transport/outcome.h"
#include "unit/transport/link_fixture.h"

#define LATE_NS	 (3 * LINK_RNR_NS / 2)
#define NEVER_NS 1000000000ull
#define SEEN_NS	 2000ull /* that long, a receiver looks for a request that is just being posted */
#define ROUND_NS (2 * LINK_NS + SEEN_NS)

static const struct link_exchange rows[] = {
	{.name = "a receive request is posted late",
	 .type = IBV_QPT_RC,
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 1)}},
	{.name = "the same of a long message",
	 .type = IBV_QPT_RC,
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 600)}},
	{.name = "the same of a shared queue",
	 .type = IBV_QPT_RC,
	 .srq = true,
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 600), POST(SEND, 1)}},
	{.name = "RDMA WRITE with immediate data",
	 .type = IBV_QPT_RC,
	 .srq = true,
	 .late_ns = LATE_NS,
	 .request = {POST(WRITE_IMM, 600), POST(WRITE, 1)}},
	{.name = "with invalidation",
	 .type = IBV_QPT_RC,
	 .srq = true,
	 .late_ns = LATE_NS,
	 .request = {POST(SEND_INV, 600)}},
	{.name = "behind others, and others behind it",
	 .type = IBV_QPT_RC,
	 .late_ns = LATE_NS,
	 .request = {POST(WRITE, 300), POST(SEND, 1), POST(READ, 300), POST(SEND, 300)}},
	{.name = "XRC",
	 .type = IBV_QPT_XRC_SEND,
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 300), POST(SEND, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 300), BACK(SEND, 300)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

/* --- times ------------------------------------------------------------------------ */

static unsigned int tries, naks, answers;
static uint32_t first_psn;
static uint64_t began_ns, last_ns;

/* The first try comes at once; each other one when the NAK's time is over. */
static void count_tries(const struct link_packet *p)
{
	uint64_t now = turned_clock_ns();

	if (p->from == 1) {
		answers++;
		naks += (p->net->packet.syndrome & 0xe0) == AV_SYNDROME_RNR_NAK;
		return;
	}
	if (tries == 0) {
		began_ns = now;
		first_psn = p->net->packet.psn;
	}
	if (p->net->packet.psn != first_psn)
		return;
	if (tries && now - last_ns != ROUND_NS + LINK_RNR_NS)
		link_fail("a try %llu ns behind the last one", (unsigned long long)(now - last_ns));
	last_ns = now;
	tries++;
}

/* Of the packets from host 0. */
static void note_times(const struct link_packet *p)
{
	if (p->from == 1)
		return;
	last_ns = turned_clock_ns();
	if (tries++ == 0)
		began_ns = last_ns;
}

static void run(const struct link_exchange *e)
{
	tries = naks = answers = 0;
	link_on_sent = count_tries;
	(void)link_run(e, NULL, 0);
	link_on_sent = NULL;
}

TEST(as_often_as_rnr_retry_says)
{
	for (uint8_t retries = 0; retries < 7; retries++)
		for (int shared = 0; shared < 2; shared++) {
			const struct link_exchange e = {
				.name = "nobody receives",
				.type = IBV_QPT_RC,
				.srq = shared,
				.late_ns = NEVER_NS,
				.rnr_retry = retries + 1,
				.fails = true,
				.request = {POST(SEND, 300), POST(SEND, 1)},
			};

			run(&e);
			assert_int_equal(tries, retries + 1);
			assert_int_equal(naks, retries + 1);
			assert_int_equal(link_status(0), IBV_WC_RNR_RETRY_EXC_ERR);
			assert_int_equal(link_status(1), IBV_WC_WR_FLUSH_ERR);
			assert_int_equal(link_side[0].last_ns - began_ns,
					 (retries + 1) * ROUND_NS + retries * LINK_RNR_NS);
		}
}

TEST(without_end)
{
	const struct link_exchange e = {
		.name = "rnr_retry 7",
		.type = IBV_QPT_RC,
		.srq = true,
		.late_ns = 100 * (ROUND_NS + LINK_RNR_NS) - 1,
		.request = {POST(SEND, 1)},
	};

	run(&e);
	assert_int_equal(tries, 101);
	assert_int_equal(naks, 100);
	assert_int_equal(answers, 100 + 1); /* a NAK acknowledges what is before it, too */
}

/* Who has a queue of its own says that there is a receive request: no time is waited for. */
TEST(told_at_once)
{
	const struct link_exchange e = {
		.name = "told at once",
		.type = IBV_QPT_RC,
		.late_ns = LINK_RNR_NS / 2,
		.request = {POST(SEND, 1)},
	};

	tries = 0;
	link_on_sent = note_times;
	(void)link_run(&e, NULL, 0);
	link_on_sent = NULL;
	assert_int_equal(tries, 2);
	assert_int_equal(last_ns - began_ns, e.late_ns + LINK_NS);
}

/* The number of tries begins anew with each request. */
TEST(anew_for_each_request)
{
	const struct link_exchange e = {
		.name = "each request waits once",
		.type = IBV_QPT_RC,
		.srq = true,
		.late_ns = LINK_RNR_NS / 2,
		.rnr_retry = 1 + 1,
		.request = {POST(SEND, 1), POST(SEND, 1)},
	};

	link_each(&e);
}

/* Codes 1 to 31, and 0 behind them: two rows, each of which doubles. */
TEST(codes)
{
	assert_int_equal(av_rnr_timer_ns(1), 10000);
	for (unsigned int code = 2; code <= 32; code++)
		assert_int_equal(av_rnr_timer_ns(code % 32),
				 code % 2 ? 30000ull << (code - 3) / 2 : 10000ull << code / 2);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
