/* SPDX-License-Identifier: MIT */
/*
 * When is a request sent again, and when given up? To the nanosecond. Source: IBTA volume 1,
 * 9.7.5.2.8 (NAKs), 9.7.6.1 (the timer and the number of tries), 9.9.2.
 */
#include <errno.h>

#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "observe/flight.h"
#include "transport/wire_qp.h"
#include "unit/transport/link_fixture.h"

#define MOMENTS 64u
#define NAK	0x60 /* of a sequence */

/* When packets were sent whose PSN is the first one; and how many of the next PSN. */
static unsigned int tries, seconds, naks;
static uint64_t tried_ns[MOMENTS];
static uint32_t first_psn;

static void note(const struct link_packet *p)
{
	if (p->from == 1) {
		naks += p->net->packet.syndrome == NAK;
		return;
	}
	if (tries == 0)
		first_psn = p->net->packet.psn;
	seconds += p->net->packet.psn == AV_PSN_AFTER(first_psn, 1);
	if (p->net->packet.psn == first_psn && tries < MOMENTS)
		tried_ns[tries++] = turned_clock_ns();
}

static void begin(void)
{
	tries = seconds = naks = 0;
	link_on_sent = note;
}

/* Post and step until nothing happens any more, or @tries_max times has been tried. */
static void run_cut(const struct link_exchange *e, unsigned int host, unsigned int tries_max)
{
	struct link_setting *setting;

	begin();
	setting = link_open(e, NULL, 0);
	setting->cut[host] = true;
	link_post();
	link_poll();
	while (tries < tries_max && link_step())
		link_poll();
	link_on_sent = NULL;
}

/* All queue pairs do not send again at the same moment: each by its number, within one interval. */
static uint64_t spread(void)
{
	return LINK_TIMEOUT_NS / 64 * (atomic_load(&link_side[0].end.qp->qpn) % 64);
}

static void expect_intervals(uint64_t end_ns)
{
	assert_int_equal(tried_ns[1] - tried_ns[0], LINK_TIMEOUT_NS);
	for (unsigned int i = 2; i < tries; i++)
		assert_int_equal(tried_ns[i] - tried_ns[i - 1], LINK_TIMEOUT_NS + spread());
	if (end_ns && tries > 1)
		assert_int_equal(end_ns - tried_ns[tries - 1], LINK_TIMEOUT_NS + spread());
}

static const uint32_t opcodes[] = {SEND, WRITE, READ, FAA};

/* Nothing gets there, or no answer comes back: one try more than retry_cnt. */
TEST(as_often_as_retry_cnt_says)
{
	for (uint8_t retries = 1; retries < 8; retries++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++)
			for (unsigned int host = 0; host < LINK_HOSTS; host++) {
				const struct link_exchange e = {
					.name = "nobody answers",
					.type = IBV_QPT_RC,
					.retry_cnt = retries + 1,
					.fails = true,
					.request = {POST(opcodes[i], 8), POST(opcodes[i], 8)},
				};

				run_cut(&e, host, MOMENTS);
				assert_int_equal(tries, retries + 1);
				assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
				assert_int_equal(link_status(1), IBV_WC_WR_FLUSH_ERR);
				expect_intervals(link_side[0].last_ns);
				link_close();
			}
}

/* The first try is the last one. */
TEST(no_retry)
{
	const struct link_exchange e = {
		.name = "retry_cnt 0",
		.type = IBV_QPT_RC,
		.retry_cnt = 0 + 1,
		.fails = true,
		.request = {POST(SEND, 300)},
	};

	run_cut(&e, 1, MOMENTS);
	assert_int_equal(tries, 1);
	assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(link_side[0].last_ns - tried_ns[0], LINK_TIMEOUT_NS);
	link_close();
}

/* A timeout of 0 is none: then it is only looked whether the peer lives. */
TEST(without_end)
{
	const struct link_exchange e = {
		.name = "timeout 0",
		.type = IBV_QPT_RC,
		.endless = true,
		.fails = true,
		.request = {POST(WRITE, 300)},
	};

	run_cut(&e, 0, MOMENTS);
	assert_int_equal(tries, MOMENTS);
	assert_int_equal(link_status(0), -1);
	link_close();
}

static struct av_window *window;

/* Another connection gets an answer, again and again. */
static void another_is_answered(void)
{
	av_window_acknowledged(window, 256, turned_clock_ns());
	if (link_status(0) == -1)
		link_call_at(turned_clock_ns() + LINK_TIMEOUT_NS / 2, another_is_answered);
}

/* While that host answers other connections, packets are lost on a crowded way: twice as often. */
TEST(crowded)
{
	const union ibv_gid peer = link_gid(1);
	const struct link_exchange e = {
		.name = "others get answers",
		.type = IBV_QPT_RC,
		.retry_cnt = 3 + 1,
		.fails = true,
		.request = {POST(WRITE, 1)},
	};
	struct link_setting *setting = link_open(&e, NULL, 0);

	begin();
	window = av_window_join(peer.raw);
	setting->cut[1] = true;
	link_post();
	another_is_answered();
	while (link_step())
		link_poll();
	link_on_sent = NULL;
	assert_int_equal(tries, 2 * (3 + 1));
	assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
	av_window_leave(window);
	link_close();
}

/* --- before the timeout ------------------------------------------------------------ */

static const struct {
	uint8_t timeout;
	uint64_t first_ns;	  /* of a repetition, after the packet itself */
	unsigned int least, most; /* repetitions within the first timeout, by queue pair number */
} earlies[] = {
	{5, 4096ull << 5, 0, 0}, {9, 4096ull << 9, 0, 0},   {11, 4000000, 1, 2},
	{12, 4000000, 2, 3},	 {14, 4096ull << 10, 3, 4}, {18, 4096ull << 14, 3, 4},
};

static void run_for_long(uint8_t timeout, uint64_t slow_ns)
{
	static const struct link_exchange e = {
		.name = "before the timeout",
		.type = IBV_QPT_RC,
		.apart = true,
		.fails = true,
		.retry_cnt = 1 + 1,
		.request = {POST(WRITE, 8), POST(WRITE, 8)},
	};
	struct link_setting *setting = link_open(&e, NULL, 0);

	begin();
	link_side[0].end.qp->attr.timeout = timeout;
	setting->cut[1] = slow_ns == 0;
	setting->slow_ns[1] = slow_ns;
	do {
		link_post();
		link_poll();
	} while (link_step());
	link_on_sent = NULL;
}

/* Sooner than a timeout, twice as late each time, and not counted as a try. */
TEST(a_part_of_the_timeout)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(earlies); i++) {
		uint64_t timeout_ns = 4096ull << earlies[i].timeout, before = 0, ns;
		unsigned int early = 0;

		run_for_long(earlies[i].timeout, 0);
		assert_int_equal(tried_ns[1] - tried_ns[0], earlies[i].first_ns);
		for (unsigned int t = 1; t < tries; t++, before = ns) {
			ns = tried_ns[t] - tried_ns[0];
			early += ns < timeout_ns;
			if (t > 1 && ns < timeout_ns)
				assert_in_range(ns, 2 * before, 4 * before);
		}
		assert_in_range(early, earlies[i].least, earlies[i].most);
		assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
		assert_in_range(link_side[0].last_ns - tried_ns[0], 2 * timeout_ns, 8 * timeout_ns);
		link_close();
	}
}

/* Beside another queue pair, whose turn it may be, only whole timeouts count. */
TEST(beside_another)
{
	static const struct link_exchange e = {
		.name = "beside another",
		.type = IBV_QPT_RC,
		.retry_cnt = 1 + 1,
		.fails = true,
		.request = {POST(READ, 8)},
	};
	const union ibv_gid peer = link_gid(1);
	struct link_setting *setting = link_open(&e, NULL, 0);

	begin();
	link_side[0].end.qp->attr.timeout = 14;
	window = av_window_join(peer.raw);
	av_window_active(window, true);
	setting->cut[1] = true;
	link_post();
	while (link_step())
		link_poll();
	link_on_sent = NULL;
	assert_int_equal(tries, 1 + 1);
	assert_int_equal(tried_ns[1] - tried_ns[0], 4096ull << 14);
	av_window_active(window, false);
	av_window_leave(window);
	link_close();
}

/* A peer that takes its time is asked again once more only until that is known. */
TEST(a_slow_peer)
{
	for (uint64_t slow_ns = 1000000; slow_ns < 60000000; slow_ns += 1000000) {
		run_for_long(14, slow_ns);
		assert_int_equal(tries > 1, slow_ns + 2 * LINK_NS > earlies[4].first_ns);
		assert_int_equal(seconds, 1);
		assert_int_equal(link_status(1), IBV_WC_SUCCESS);
		link_close();
	}
}

/* --- why -------------------------------------------------------------------------- */

static const struct {
	int refusal; /* of the sender's interface */
	enum av_check why;
} silences[] = {
	{0, AV_CHECK_PEER_SILENT},
	{-ENETUNREACH, AV_CHECK_PEER_NO_WAY},
	{-EPERM, AV_CHECK_PEER_FIREWALL},
};

/* Whoever gives up says what is known of the reason, also after one try. */
TEST(with_a_reason)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(silences); i++)
		for (uint8_t retries = 0; retries < 3; retries++) {
			const struct link_exchange e = {.name = "nothing gets there",
							.type = IBV_QPT_RC,
							.retry_cnt = retries + 1,
							.fails = true,
							.request = {POST(SEND, 8)}};
			struct link_setting *setting = link_open(&e, NULL, 0);
			const struct av_flight_file *file = av_flight_own();
			struct av_flight_record r;

			setting->cut[0] = true;
			setting->refusal = silences[i].refusal;
			link_post();
			while (link_step())
				link_poll();
			assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
			assert_non_null(file);
			assert_true(av_flight_read(file, av_flight_next(file) - 1, &r));
			if (r.check != silences[i].why)
				link_fail("the reason is %u, not %u", r.check, silences[i].why);
			av_flight_own_end();
			link_close();
		}
}

/* --- NAKs ------------------------------------------------------------------------- */

static uint64_t took(const struct link_exchange *e, const struct link_fault *f)
{
	begin();
	(void)link_run(e, f, 1);
	link_on_sent = NULL;
	return link_side[0].last_ns - tried_ns[0];
}

/* One NAK for a gap, however many packets come behind it; and no timer is waited for. */
TEST(a_gap)
{
	static const struct link_exchange e = {
		.name = "one of eight packets is lost",
		.type = IBV_QPT_RC,
		.request = {POST(WRITE, 2048)},
	};

	for (unsigned int packet = 0; packet < 8; packet++) {
		const struct link_fault f = {.packet = packet, .what = LINK_LOSE};
		uint64_t ns = took(&e, &f);

		assert_int_equal(naks, packet < 7);
		if (packet < 7)
			assert_int_equal(ns, 4 * LINK_NS);
		else /* nobody knows that there was one behind */
			assert_int_equal(ns, LINK_TIMEOUT_NS + 2 * LINK_NS);
	}
}

/* An answer that comes behind the missing one shows the gap. */
TEST(a_gap_in_answers)
{
	static const struct link_exchange e = {
		.name = "one packet of an answer is lost",
		.type = IBV_QPT_RC,
		.request = {POST(READ, 2048)},
	};

	for (unsigned int packet = 1; packet < 9; packet++) {
		const struct link_fault f = {.packet = packet, .what = LINK_LOSE};
		uint64_t ns = took(&e, &f);

		if (packet < 8)
			assert_int_equal(ns, 4 * LINK_NS);
		else /* the time begins anew with what has come */
			assert_int_equal(ns, LINK_TIMEOUT_NS + 4 * LINK_NS);
	}
}

/* --- late answers ------------------------------------------------------------------ */

static bool is_answer[MOMENTS];

static void note_answers(const struct link_packet *p)
{
	if (p->number < MOMENTS)
		is_answer[p->number] = p->from == 1;
}

/* An answer that comes once more, while others are awaited, makes nobody send anything again. */
TEST(a_late_answer)
{
	static const struct link_exchange e = {
		.name = "a late answer",
		.type = IBV_QPT_RC,
		.apart = true,
		.request = {POST(READ, 300), POST(FAA, 8), POST(SEND, 1), POST(READ, 1),
			    POST(WRITE, 300)},
	};
	unsigned int packets;

	link_on_sent = note_answers;
	packets = link_run(&e, NULL, 0);
	link_on_sent = NULL;
	assert_in_range(packets, 1, MOMENTS);
	for (uint64_t late = LINK_NS / 2; late < 8 * LINK_NS; late += LINK_NS)
		for (unsigned int i = 0; i < packets; i++) {
			const struct link_fault f = {
				.packet = i, .what = LINK_ECHO, .delay_ns = late};

			if (is_answer[i])
				assert_int_equal(link_run(&e, &f, 1), packets);
		}
}

/* --- with few tries --------------------------------------------------------------- */

/* Each progress begins the tries anew: one loss is survived by one retry, wherever it is. */
TEST(one_retry)
{
	static const struct link_exchange e = {
		.name = "retry_cnt 1",
		.type = IBV_QPT_RC,
		.retry_cnt = 1 + 1,
		.request = {POST(WRITE, 600), POST(READ, 600), POST(SEND, 300), POST(FAA, 8)},
	};

	link_each(&e);
}

/* Two are survived by two. */
TEST(two_retries)
{
	static const struct link_exchange e = {
		.name = "retry_cnt 2",
		.type = IBV_QPT_RC,
		.retry_cnt = 2 + 1,
		.request = {POST(WRITE, 300), POST(READ, 300), POST(SEND, 1), POST(FAA, 8)},
	};

	link_each_two(&e);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
