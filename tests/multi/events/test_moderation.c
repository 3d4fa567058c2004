/* SPDX-License-Identifier: MIT */
/*
 * ibv_modify_cq(): events of a completion queue that wait for so many completions, or so long, and
 * those that do not wait. This process has the queue; another one sends, so that the entries are
 * appended from outside.
 */
#include <errno.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define CQ	1 /* receives of the queue pairs */
#define SPARE	2
#define NONE	(-1)
#define LONG_US 65535u

static struct node *n;

static int moderate(int cq, unsigned int count, unsigned int period_us)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = (uint16_t)count, .cq_period = (uint16_t)period_us}};

	return ibv_modify_cq(n->cq[cq], &attr);
}

/* On return the entries are there. */
static void receive(int count, unsigned int flags)
{
	probe_messages(&b, &a, 0, count, flags);
}

static void expect_event(int cq)
{
	int got = node_comp_event(n, PROBE_PATIENCE);

	EXPECT(got == cq, "event of %d, not of %d", got, cq);
}

static void expect_none(const char *when)
{
	EXPECT(node_comp_event(n, 0) == NONE, "an event %s", when);
}

static void expect_entries(int count)
{
	struct ibv_wc wc[NODE_LIST];
	int got = node_poll(n, CQ, count, PROBE_PATIENCE, wc);

	EXPECT(got == count, "%d completions, not %d", got, count);
}

static void begin(const char *name, unsigned int count, unsigned int period_us, int solicited)
{
	row("%s", name);
	EXPECT(moderate(CQ, count, period_us) == 0, "ibv_modify_cq: errno %d", errno);
	EXPECT(node_arm(n, CQ, solicited) == 0, "ibv_req_notify_cq");
}

/* --- so many --------------------------------------------------------------------- */

static void count_row(void)
{
	begin("with the fourth completion", 4, 0, 0);
	receive(3, 0);
	expect_none("with the third");
	receive(1, 0);
	expect_event(CQ);
	receive(4, 0);
	expect_none("without being armed");
	expect_entries(8);
}

static void there_row(void)
{
	row("completions that are there count, but for those that an event has told of");
	receive(3, 0);
	begin("completions that are there count, but for those that an event has told of", 4, 0, 0);
	expect_none("with the third");
	receive(1, 0);
	expect_event(CQ);
	EXPECT(node_arm(n, CQ, 0) == 0, "ibv_req_notify_cq");
	receive(3, 0);
	expect_none("with three more");
	receive(1, 0);
	expect_event(CQ);
	expect_entries(8);
}

static void once_row(void)
{
	begin("a completion makes one event, though it is there when the CQ is armed again", 0, 0,
	      0);
	receive(1, 0);
	expect_event(CQ);
	EXPECT(node_arm(n, CQ, 0) == 0, "ibv_req_notify_cq");
	expect_none("for what an event has told of");
	expect_entries(1);
	expect_none("for what was polled");
	receive(3, 0);
	expect_event(CQ);
	for (int i = 0; i < 2; i++) {
		EXPECT(node_arm(n, CQ, 0) == 0, "ibv_req_notify_cq");
		expect_event(CQ); /* for the next that is there */
	}
	EXPECT(node_arm(n, CQ, 0) == 0, "ibv_req_notify_cq");
	expect_none("for the third time");
	expect_entries(3);
}

static void polled_row(void)
{
	begin("completions that were polled meanwhile count, too", 3, 0, 0);
	receive(2, 0);
	expect_entries(2);
	receive(1, 0);
	expect_event(CQ);
	expect_entries(1);
}

static void solicited_row(void)
{
	begin("of an event for solicited ones, those count", 2, 0, 1);
	receive(3, 0);
	receive(1, IBV_SEND_SOLICITED);
	expect_none("with the first of them");
	receive(1, IBV_SEND_SOLICITED);
	expect_event(CQ);
	expect_entries(5);
}

/* --- so long --------------------------------------------------------------------- */

static void period_row(const char *name, unsigned int count)
{
	uint64_t start;

	begin(name, count, LONG_US, 0);
	start = now_ns();
	receive(1, 0);
	expect_event(CQ);
	EXPECT(now_ns() - start >= LONG_US * 1000ull, "after %lu us", (now_ns() - start) / 1000);
	expect_none("more");
	expect_entries(1);
}

static void there_period_row(void)
{
	uint64_t start;

	row("the time of completions that are there begins with the arming");
	receive(2, 0);
	start = now_ns();
	begin("the time of completions that are there begins with the arming", 0, LONG_US, 0);
	expect_event(CQ);
	EXPECT(now_ns() - start >= LONG_US * 1000ull, "after %lu us", (now_ns() - start) / 1000);
	expect_entries(2);
}

/* --- not at all ------------------------------------------------------------------ */

static void changed_rows(void)
{
	begin("an event that waits comes when moderation ends", 100, 0, 0);
	receive(2, 0);
	expect_none("before");
	EXPECT(moderate(CQ, 0, 0) == 0, "ibv_modify_cq");
	expect_event(CQ);
	expect_entries(2);
	begin("when the number is lowered", 100, 0, 0);
	receive(2, 0);
	EXPECT(moderate(CQ, 3, 0) == 0, "ibv_modify_cq");
	expect_none("before");
	EXPECT(moderate(CQ, 2, 0) == 0, "ibv_modify_cq");
	expect_event(CQ);
	expect_entries(2);
	begin("when a period is given at last", 100, 0, 0);
	receive(1, 0);
	expect_none("before");
	EXPECT(moderate(CQ, 100, 1) == 0, "ibv_modify_cq");
	expect_event(CQ);
	expect_entries(1);
	begin("none waits without moderation", 0, 0, 0);
	receive(1, 0);
	expect_event(CQ);
	expect_entries(1);
}

static void error_row(void)
{
	begin("completions in error do not wait", 100, 0, 0);
	receive(1, 0);
	expect_none("for the good one");
	side_recv_one(&a, 0, 1, 0, 8);
	EXPECT(side_set_state(&a, 0, IBV_QPS_ERR) == 0, "to ERR");
	expect_event(CQ);
	expect_entries(2);
	probe_reconnect(&b, &a, 0);
}

static void refused_rows(void)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_RESERVED};
	struct ibv_device_attr_ex dev;

	row("attributes that there are not");
	EXPECT(ibv_modify_cq(n->cq[CQ], &attr) == EINVAL, "accepted");
	attr.attr_mask |= IBV_CQ_ATTR_MODERATE;
	EXPECT(ibv_modify_cq(n->cq[CQ], &attr) == EINVAL, "accepted");
	begin("nothing to change", 2, 0, 0);
	attr = (struct ibv_modify_cq_attr){.moderate = {.cq_count = 1}};
	EXPECT(ibv_modify_cq(n->cq[CQ], &attr) == 0, "refused");
	receive(1, 0);
	expect_none("with the first");
	receive(1, 0);
	expect_event(CQ);
	expect_entries(2);
	row("the device says how far it goes");
	EXPECT(ibv_query_device_ex(n->ctx, NULL, &dev) == 0 &&
		       dev.cq_mod_caps.max_cq_count == UINT16_MAX &&
		       dev.cq_mod_caps.max_cq_period == UINT16_MAX,
	       "not");
}

/* A queue that ends while its event waits, and the next one in its place. */
static void destroyed_row(void)
{
	row("a queue destroyed before its event comes");
	for (int i = 0; i < 3; i++) {
		struct node_qp_spec mine = spec_default(), theirs = mine;

		mine.recv_cq = SPARE;
		if (node_create_cq(n, SPARE, 8, true))
			DIE("ibv_create_cq");
		if (side_create_qp(&a, 1, &mine, NULL) || side_create_qp(&b, 1, &theirs, NULL))
			DIE("queue pairs");
		pair_connect(&a, 1, NULL, &b, 1, NULL);
		EXPECT(moderate(SPARE, 0, LONG_US) == 0 && node_arm(n, SPARE, 0) == 0,
		       "moderation");
		side_recv_one(&a, 1, 1, 0, 8);
		EXPECT(side_post_send(&b, 1, &(struct node_send){.opcode = IBV_WR_SEND}, 1).ret ==
			       0,
		       "post");
		pair_destroy(&a, 1, &b, 1);
		EXPECT(node_destroy_cq(n, SPARE) == 0, "ibv_destroy_cq");
	}
	EXPECT(node_comp_event(n, 2 * LONG_US / 1000) == NONE, "its event came");
}

static void run(void)
{
	count_row();
	there_row();
	once_row();
	polled_row();
	solicited_row();
	period_row("after the period", 0);
	period_row("after the period, before the number", 100);
	there_period_row();
	changed_rows();
	error_row();
	refused_rows();
	EXPECT(moderate(CQ, 0, 0) == 0, "ibv_modify_cq");
	destroyed_row();
}

int main(int argc, char **argv)
{
	two_sides_open(argc, argv);
	n = a.node;
	probe_open(&a, &b, 0);
	run();
	probe_close(&a, &b, 0);
	return two_sides_close();
}
