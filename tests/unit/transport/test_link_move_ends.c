/* SPDX-License-Identifier: MIT */
/*
 * Connections of one host that move to the wire: how long that takes, to the nanosecond; who cannot
 * move; and who goes away in the middle of it.
 */
#include "base/clock.h"
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

#define FROM(r) ((r) + 1) /* the kernel refuses from that request on */

/* How long a process takes to hear a call. */
static const uint64_t call_ns[] = {
	0, LINK_NS / 2, 3 * LINK_NS, LINK_TIMEOUT_NS * 3 / 2, LINK_TIMEOUT_NS * 40,
};

/* Return: how long it took until the last completion of host 0 */
static uint64_t run(const struct link_exchange *e)
{
	uint64_t begun_ns;

	(void)link_open(e, NULL, 0);
	begun_ns = turned_clock_ns();
	link_post();
	link_poll();
	while (link_step())
		link_poll();
	link_close();
	return link_side[0].last_ns - begun_ns;
}

/* --- times ------------------------------------------------------------------------ */

/* The peer hears that it is to move, then this side hears that it has. No timer is waited for. */
TEST(as_long_as_two_calls_take)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(call_ns); i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(call_ns); k++) {
			const struct link_exchange e = {
				.name = "as long as two calls take",
				.type = IBV_QPT_RC,
				.near = true,
				.refused = {FROM(0)},
				.call_ns = {call_ns[i], call_ns[k]},
				.request = {POST(WRITE, 1)},
			};

			assert_int_equal(run(&e), call_ns[i] + call_ns[k] + 2 * LINK_NS);
			assert_int_equal(link_status(0), IBV_WC_SUCCESS);
		}
}

/* Whatever is sent before its receiver has moved, or while its sender has not. */
TEST(whoever_is_late)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(call_ns); i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(call_ns); k++) {
			const struct link_exchange e = {
				.name = "whoever is late",
				.type = IBV_QPT_RC,
				.near = true,
				.refused = {FROM(0), FROM(1)},
				.call_ns = {call_ns[i], call_ns[k]},
				.request = {POST(WRITE, 300), BACK(READ, 300), POST(SEND, 1),
					    BACK(FAA, 8)},
			};

			link_each(&e);
		}
}

/* A move is no loss: each try lasts until threads have had the time to wake up. */
TEST(patiently)
{
	struct link_exchange e = {
		.name = "the peer takes long to hear",
		.type = IBV_QPT_RC,
		.near = true,
		.refused = {FROM(0)},
		.retry_cnt = 0 + 1,
		.call_ns = {0, AV_PEER_TIMEOUT_NS - 1},
		.fails = true,
		.request = {POST(WRITE, 1)},
	};

	assert_int_equal(run(&e), AV_PEER_TIMEOUT_NS - 1 + 2 * LINK_NS);
	assert_int_equal(link_status(0), IBV_WC_SUCCESS);
	e.call_ns[1] = 1000 * AV_PEER_TIMEOUT_NS;
	for (uint8_t retries = 0; retries < 8; retries++) {
		e.retry_cnt = retries + 1;
		assert_int_equal(run(&e), (retries + 1) * AV_PEER_TIMEOUT_NS);
		assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
	}
}

/* --- who cannot move --------------------------------------------------------------- */

/* The peer hears that, or finds out by itself: the request fails, and is not executed. */
TEST(who_cannot)
{
	static const struct link_exchange e = {
		.name = "one may use no packets",
		.type = IBV_QPT_RC,
		.near = true,
		.refused = {FROM(0)},
		.call_ns = {3 * LINK_NS, LINK_NS},
		.fails = true,
		.request = {POST(WRITE, 300)},
	};

	for (unsigned int host = 0; host < LINK_HOSTS; host++) {
		uint8_t *layer = &link_side[host].seg->head->link_layer;

		*layer = IBV_LINK_LAYER_INFINIBAND;
		assert_int_equal(run(&e), host ? e.call_ns[0] + e.call_ns[1] : 0);
		*layer = IBV_LINK_LAYER_ETHERNET;
		assert_int_equal(link_status(0), IBV_WC_REM_OP_ERR);
		assert_true(link_is_untouched(0));
		assert_int_equal(link_sent(), 0);
	}
}

/* --- who goes away ----------------------------------------------------------------- */

static struct {
	unsigned int host;
	enum ibv_qp_state to;
} end;

static void go(void)
{
	link_enter(end.host, end.to);
}

static void expect_nothing_left(const struct link_exchange *e)
{
	for (unsigned int r = 0; e->request[r].there; r++)
		if (link_status(r) < 0 && (e->request[r].from != end.host || end.to == IBV_QPS_ERR))
			link_fail("request %u has no completion", r);
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		const struct av_qp_shared *qp = link_side[h].end.qp;
		const struct av_wire *w = av_wire_at(link_side[h].seg, qp->index);

		if (atomic_load(&qp->wait_reason) != AV_WAIT_NONE || (w && w->active))
			link_fail("host %u waits", h);
	}
}

/* At each moment of the move, and of what follows. */
TEST(who_goes_away)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_ERR, IBV_QPS_RESET};
	static const struct link_exchange e = {
		.name = "one goes away",
		.type = IBV_QPT_RC,
		.near = true,
		.refused = {FROM(0), FROM(1)},
		.call_ns = {3 * LINK_NS, 2 * LINK_NS},
		.retry_cnt = 1 + 1,
		.fails = true,
		.request = {POST(WRITE, 300), BACK(READ, 300), POST(SEND, 300), BACK(FAA, 8)},
	};

	for (uint64_t ns = 0; ns < 20 * LINK_NS; ns += LINK_NS / 2)
		for (size_t i = 0; i < AV_ARRAY_SIZE(states) * LINK_HOSTS; i++) {
			end.host = i % LINK_HOSTS;
			end.to = states[i / LINK_HOSTS];
			(void)link_open(&e, NULL, 0);
			link_call_at(turned_clock_ns() + ns, go);
			link_post();
			link_poll();
			while (link_step())
				link_poll();
			expect_nothing_left(&e);
			link_close();
		}
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
