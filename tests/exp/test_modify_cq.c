/* SPDX-License-Identifier: MIT */
/*
 * ibv_exp_modify_cq(): completions that another process causes here ring the channel when there are
 * as many as was said, or when the first has waited as long as was said. A CQ that ignores overruns
 * drops what it has no room for.
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define CQ	1 /* receives of the queue pair */
#define NONE	(-1)
#define LONG_US 65535u
#define ROOM	4

static struct node *n;

static void begin(const char *name, int mask, uint16_t count, uint16_t period_us)
{
	struct ibv_exp_cq_attr attr = {.comp_mask = IBV_EXP_CQ_ATTR_MODERATION,
				       .moderation = {count, period_us},
				       .cq_cap_flags = ~0u /* not read without its bit */};

	row("%s", name);
	errno = 0;
	EXPECT(ibv_exp_modify_cq(n->cq[CQ], &attr, mask) == 0, "refused: errno %d", errno);
	EXPECT(node_arm(n, CQ, 0) == 0, "ibv_req_notify_cq");
}

/* On return the completions are there. */
static void receive(int count)
{
	probe_messages(&b, &a, 0, count, 0);
}

static void take(int count)
{
	struct ibv_wc wc[8];
	int got = node_poll(n, CQ, count, PROBE_PATIENCE, wc);

	EXPECT(got == count, "%d completions, not %d", got, count);
}

static void rows(void)
{
	begin("not moderated without the bit", 0, 4, 0);
	receive(1);
	EXPECT(node_comp_event(n, PROBE_PATIENCE) == CQ, "no event");
	take(1);

	begin("with the fourth completion", IBV_EXP_CQ_MODERATION, 4, 0);
	receive(3);
	EXPECT(node_comp_event(n, 0) == NONE, "an event with the third");
	receive(1);
	EXPECT(node_comp_event(n, PROBE_PATIENCE) == CQ, "no event");
	take(4);

	begin("after a period", IBV_EXP_CQ_MODERATION, 100, LONG_US);
	receive(1);
	EXPECT(node_comp_event(n, PROBE_PATIENCE) == CQ, "no event");
	take(1);

	begin("not moderated any more", IBV_EXP_CQ_MODERATION, 0, 0);
	receive(1);
	EXPECT(node_comp_event(n, PROBE_PATIENCE) == CQ, "no event");
	take(1);
}

static void overrun_row(void)
{
	struct ibv_exp_cq_attr attr = {.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};
	struct node_event e;
	struct ibv_wc wc;

	row("overruns are ignored");
	EXPECT(ibv_resize_cq(n->cq[CQ], ROOM) == 0, "ibv_resize_cq");
	EXPECT(ibv_exp_modify_cq(n->cq[CQ], &attr, IBV_EXP_CQ_CAP_FLAGS) == 0, "refused");
	receive(ROOM + 3);
	take(ROOM);
	EXPECT(ibv_poll_cq(n->cq[CQ], 1, &wc) == 0, "it holds more, or is broken");
	e = side_own_async(&a, 0);
	EXPECT(!e.any, "event %d", e.type);
}

int main(int argc, char **argv)
{
	two_sides_open(argc, argv);
	n = a.node;
	EXPECT(node_destroy_cq(n, CQ) == 0 && node_create_cq(n, CQ, 64, true) == 0,
	       "a queue with a channel");
	probe_open(&b, &a, 0);
	rows();
	overrun_row();
	probe_close(&b, &a, 0);
	return two_sides_close();
}
