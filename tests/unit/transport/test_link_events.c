/* SPDX-License-Identifier: MIT */
/*
 * What a program hears of a queue pair whose packets take time. A send queue is drained when the
 * last message that had begun is done, and none begins meanwhile: IBTA volume 1, 10.3.1. A CQ that
 * has no room for a completion fails the queue pair, once: 10.10.2.3; ibv_get_async_event(3).
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "lib/check.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "segment/segment.h"
#include "transport/transport.h"
#include "unit/transport/link_parts.h"

static int doorbell; /* of host 0 */

/* Return: events of that type at host 0 since the last call; those of others are forgotten */
static unsigned int heard(enum ibv_event_type type)
{
	struct av_doorbell_record record;
	unsigned int n = 0;

	while (read(doorbell, &record, sizeof(record)) == (ssize_t)sizeof(record))
		n += record.event == (uint32_t)type && record.index == link_side[0].end.qp->index;
	return n;
}

/* --- drained ---------------------------------------------------------------------- */

static const struct link_exchange drained_rows[] = {
	{.name = "SEND",
	 .type = IBV_QPT_RC,
	 .fails = true,
	 .request = {POST(SEND, 1200), POST(SEND, 300)}},
	{.name = "SEND, and its receiver is late",
	 .type = IBV_QPT_RC,
	 .late_ns = LINK_RNR_NS / 2,
	 .fails = true,
	 .request = {POST(SEND, 600), POST(SEND, 1)}},
	{.name = "the receiver tells how many requests it has",
	 .type = IBV_QPT_RC,
	 .narrow = true,
	 .fails = true,
	 .request = {POST(WRITE, 20000), POST(SEND, 1)}},
	{.name = "READ, in parts",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .narrow = true,
	 .fails = true,
	 .request = {POST(READ, 20000), POST(READ, 300)}},
	{.name = "one READ at a time",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .fails = true,
	 .request = {POST(READ, 600), POST(FAA, 8), POST(READ, 300)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 1,
	 .fails = true,
	 .request = {POST(WRITE, 1200), POST(SEND, 600)}},
	{.name = "unreliable, through a full interface",
	 .type = IBV_QPT_UC,
	 .room = 1,
	 .fails = true,
	 .request = {POST(WRITE, 1200), POST(WRITE, 600)}},
};

static unsigned int begun(void)
{
	unsigned int n = 0;

	while (n < link_count && link_known[n].begun)
		n++;
	return n;
}

static void go_on(void)
{
	while (link_step())
		link_poll();
}

/* Return: had anything not yet been done then? */
static bool drain_after(const struct link_exchange *e, unsigned int steps,
			const struct link_fault *f)
{
	unsigned int events = 0, then;
	bool under_way = true;

	(void)link_open(e, f, f != NULL);
	link_side[0].end.qp->attr.en_sqd_async_notify = 1;
	(void)heard(IBV_EVENT_SQ_DRAINED);
	link_post();
	link_poll();
	while (steps-- && (under_way = link_step()))
		link_poll();
	then = begun();
	link_enter(0, IBV_QPS_SQD);
	do {
		link_poll();
		events += heard(IBV_EVENT_SQ_DRAINED);
		if (events && link_side[0].completed < then)
			link_fail("drained before request %u is done", link_side[0].completed);
	} while (link_step());
	MUST_BE(events, 1);
	MUST_BE(link_side[0].completed, begun());
	/* What has begun may wait for room in the interface with its first packet. */
	MUST(begun() == then || (e->room && begun() == then + 1));
	MUST_BE(atomic_load(&link_side[0].end.qp->state), IBV_QPS_SQD);
	link_enter(0, IBV_QPS_RTS);
	link_poll();
	go_on();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		link_check_side(h);
	link_check_memory();
	MUST_BE(heard(IBV_EVENT_SQ_DRAINED), 0);
	link_close();
	return under_way;
}

/* At each moment; and at each when a packet is lost. */
static void drained(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(drained_rows); i++) {
		const struct link_exchange *e = &drained_rows[i];
		unsigned int steps = 0, packets = link_run(e, NULL, 0);

		while (drain_after(e, steps, NULL))
			steps++;
		assert_in_range(steps, 1, 1000);
		for (unsigned int k = 0; k <= steps; k++)
			for (unsigned int p = 0; p < packets && p < 20; p++) {
				const struct link_fault f = {.packet = p, .what = LINK_LOSE};

				(void)drain_after(e, k, &f);
			}
	}
}

static unsigned int tries;

static void count_tries(const struct link_packet *p)
{
	tries += p->from == 0;
}

/* What is changed while it is drained is in force from then on. */
static void has_another_patience(void **state)
{
	static const struct link_exchange e = {.name = "another patience",
					       .type = IBV_QPT_RC,
					       .endless = true,
					       .fails = true,
					       .request = {POST(WRITE, 1)}};
	struct link_setting *setting = link_open(&e, NULL, 0);
	struct ibv_qp_attr *attr = &link_side[0].end.qp->attr;

	setting->cut[0] = true;
	link_enter(0, IBV_QPS_SQD);
	attr->timeout = LINK_TIMEOUT;
	attr->retry_cnt = 1;
	link_enter(0, IBV_QPS_RTS);
	tries = 0;
	link_on_sent = count_tries;
	link_post();
	go_on();
	link_on_sent = NULL;
	assert_int_equal(link_status(0), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(tries, 2);
	link_close();
}

/* --- overrun ---------------------------------------------------------------------- */

static const struct link_exchange overrun_rows[] = {
	{.name = "one acknowledgement completes all",
	 .type = IBV_QPT_RC,
	 .fails = true,
	 .request = {POST(WRITE, 8), POST(WRITE, 8), POST(WRITE, 8), POST(WRITE, 8)}},
	{.name = "answers",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .fails = true,
	 .request = {POST(READ, 300), POST(READ, 300), POST(FAA, 8), POST(READ, 300)}},
	{.name = "nobody answers",
	 .type = IBV_QPT_UC,
	 .fails = true,
	 .request = {POST(SEND, 8), POST(SEND, 8), POST(SEND, 8), POST(SEND, 8)}},
};

/* Completions that were there stay so; none is read before the end. Return: packets of host 0 */
static unsigned int overrun(const struct link_exchange *e, const struct link_fault *f)
{
	struct link_side *s = &link_side[0];
	uint32_t usual = s->send_cq;

	s->send_cq = av_cq_init(s->seg, 1, 0, 99, AV_MAX_CQ, NULL);
	CHECK(s->send_cq);
	(void)link_open(e, f, f != NULL);
	(void)heard(IBV_EVENT_QP_FATAL);
	tries = 0;
	link_on_sent = count_tries;
	link_post();
	while (link_step())
		;
	link_on_sent = NULL;
	MUST_BE(heard(IBV_EVENT_QP_FATAL), 1);
	MUST_BE(atomic_load(&s->end.qp->state), IBV_QPS_ERR);
	MUST_BE(atomic_load(&s->end.qp->wait_reason), AV_WAIT_NONE);
	link_close();
	av_cq_fini(s->seg, s->send_cq);
	s->send_cq = usual;
	return tries;
}

static void full_cq(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(overrun_rows); i++)
		for (unsigned int p = 0; p < 4; p++) {
			const struct link_fault f = {.packet = p, .what = LINK_LOSE};

			(void)overrun(&overrun_rows[i], &f);
		}
}

/* It sends nothing more. */
static void sends_nothing_then(void **state)
{
	assert_int_equal(overrun(&overrun_rows[1], NULL), 2);
	assert_int_equal(overrun(&overrun_rows[2], NULL), 2);
}

/* --- a device that fails ------------------------------------------------------------- */

/* All its queue pairs do, also the first that a context has ever had. */
static void fails_with_its_device(void **state)
{
	static const struct link_exchange e = {.name = "the device fails",
					       .type = IBV_QPT_RC,
					       .fails = true,
					       .request = {POST(SEND, 8), POST(READ, 8)}};
	struct link_side *s = &link_side[0];
	struct link_setting *setting = link_open(&e, NULL, 0);

	MUST_BE(s->end.qp->index, 1);
	setting->cut[0] = true;
	link_post();
	MUST(av_context_fatal(s->seg));
	MUST_BE(atomic_load(&s->end.qp->state), IBV_QPS_ERR);
	link_poll();
	MUST_BE(link_status(0), IBV_WC_WR_FLUSH_ERR);
	MUST_BE(link_status(1), IBV_WC_WR_FLUSH_ERR);
	atomic_store(&s->seg->head->fatal, 0);
	link_close();
}

static int set_up(void **state)
{
	if (link_set_up(state))
		return -1;
	doorbell = av_doorbell_create(link_side[0].seg, AV_DOORBELL_ASYNC);
	return doorbell < 0 ? -1 : fcntl(doorbell, F_SETFL, O_NONBLOCK);
}

static int tear_down(void **state)
{
	close(doorbell);
	return link_tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fails_with_its_device), /* first: it wants index 1 */
		cmocka_unit_test(drained),
		cmocka_unit_test(has_another_patience),
		cmocka_unit_test(full_cq),
		cmocka_unit_test(sends_nothing_then),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
