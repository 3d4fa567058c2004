/* SPDX-License-Identifier: MIT */
/* multi/events/test_event_race.c for CQs made for AS notify, by either way of hearing of events. */
#include <anyverbs/as_notify.h>
#include <infiniband/verbs_exp.h>

#include "lib/event_race.h"
#include "lib/expect.h"

static struct ibv_cq *create(struct node *n, int cqe)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = IBV_EXP_CQ_AS_NOTIFY};

	return ibv_exp_create_cq(n->ctx, cqe, NULL, n->channel, 0, &attr);
}

static void wait_directly(struct ibv_cq *cq)
{
	NEED(anyverbs_cq_wait(cq, NULL) == 0);
}

static const struct event_race races[] = {
	{"directly", create, wait_directly, race_poll, false, 0, 0},
	{"by the channel", create, race_wait, race_poll, false, 0, 0},
	{"solicited, directly", create, wait_directly, race_poll, true, 0, 0},
	{"by number and time, directly", create, wait_directly, race_poll, false, 4, 20},
};

int main(int argc, char **argv)
{
	event_races_open(argc, argv, "IBM_AS_NOTIFY_EN");
	event_races(races, COUNT_OF(races), 20000);
	return event_races_close();
}
