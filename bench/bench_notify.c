/* SPDX-License-Identifier: MIT */
/*
 * Waking a thread that waits for a completion: AS notify and completion channel in turn. Measures a
 * ping-pong between two processes that sleep between messages (one way, in nanoseconds), and the
 * duration of the sender's call, which wakes the other side.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <anyverbs/as_notify.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/switches_in_force.h"
#include "measure.h"

#define CQ	  2
#define DEPTH	  16u
#define BYTES	  8u
#define EXCHANGES 3000u
#define WARM_UP	  300u
#define SEND_AT	  0x10000u

enum job { JOB_MAKE, JOB_EXCHANGE };

struct way {
	struct ibv_comp_channel *channel; /* NULL: AS notify */
};

static struct side a, b; /* a is in this process */
static struct way way;
static uint32_t one_way[EXCHANGES], call[EXCHANGES];

static uint32_t exchanges(void)
{
	return (uint32_t)bench_count(EXCHANGES, 3);
}

/* The CQ of receives. */
static void make(struct node *n, bool notify)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = notify ? IBV_EXP_CQ_AS_NOTIFY : 0};

	way.channel = notify ? NULL : n->channel;
	n->cq[CQ] = ibv_exp_create_cq(n->ctx, 64, NULL, way.channel, 0, &attr);
	if (!n->cq[CQ])
		DIE("ibv_exp_create_cq: errno %d", errno);
}

static void post(struct node *n, uint32_t i)
{
	struct ibv_sge sge = {n->info.base[KEY_FULL] + i % DEPTH * 64, BYTES,
			      n->info.key[KEY_FULL]};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(n->qp[0], &wr, &bad))
		DIE("ibv_post_recv");
}

static void sleep_for_event(struct ibv_cq *cq)
{
	struct ibv_cq *of;
	void *context;

	if (!way.channel) {
		if (anyverbs_cq_wait(cq, NULL))
			DIE("anyverbs_cq_wait: errno %d", errno);
		return;
	}
	if (ibv_get_cq_event(way.channel, &of, &context))
		DIE("ibv_get_cq_event: errno %d", errno);
	ibv_ack_cq_events(of, 1);
}

static void receive(struct node *n)
{
	struct ibv_wc wc;

	if (ibv_req_notify_cq(n->cq[CQ], 0))
		DIE("ibv_req_notify_cq");
	sleep_for_event(n->cq[CQ]);
	if (ibv_poll_cq(n->cq[CQ], 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		DIE("no completion");
}

/* Return: duration of the call in nanoseconds. */
static uint32_t send_one(struct node *n)
{
	struct ibv_sge sge = {n->info.base[KEY_FULL] + SEND_AT, BYTES, n->info.key[KEY_FULL]};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t begin = now_ns(), ns;
	struct ibv_wc wc;

	if (ibv_post_send(n->qp[0], &wr, &bad))
		DIE("ibv_post_send");
	ns = now_ns() - begin;
	while (ibv_poll_cq(n->cq[0], 1, &wc) == 0)
		;
	return (uint32_t)ns;
}

static void exchange(struct node *n, bool first)
{
	uint32_t warm_up = (uint32_t)bench_count(WARM_UP, 1);

	for (uint32_t i = 0; i < warm_up + exchanges(); i++) {
		uint64_t begin = now_ns();
		uint32_t took = 0;

		if (first)
			took = send_one(n);
		receive(n);
		post(n, i);
		if (!first)
			(void)send_one(n);
		if (i < warm_up)
			continue;
		call[i - warm_up] = took;
		one_way[i - warm_up] = (uint32_t)((now_ns() - begin) / 2);
	}
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	if ((enum job)job->arg[0] == JOB_MAKE)
		make(n, job->arg[1]);
	else
		exchange(n, false);
	return 0;
}

static void there(struct side_job job)
{
	side_begin(&b, &job);
	(void)side_end(&b);
}

static int ascending(const void *x, const void *y)
{
	uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;

	return (p > q) - (p < q);
}

static double median(uint32_t *of)
{
	qsort(of, exchanges(), sizeof(of[0]), ascending);
	return of[exchanges() / 2];
}

/* Fills one_way[] and call[]. */
static void measure(bool notify)
{
	struct node_qp_spec spec = spec_default();

	make(a.node, notify);
	there((struct side_job){.arg = {JOB_MAKE, notify}});
	spec.recv_cq = CQ;
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	for (uint32_t i = 0; i < DEPTH; i++) {
		post(a.node, i);
		side_recv_one(&b, 0, i, i * 64, BYTES);
	}
	side_begin(&b, &(struct side_job){.arg = {JOB_EXCHANGE}});
	exchange(a.node, true);
	(void)side_end(&b);
	pair_destroy(&a, 0, &b, 0);
	if (side_destroy_cq(&a, CQ) || side_destroy_cq(&b, CQ))
		DIE("ibv_destroy_cq");
}

int main(int argc, char **argv)
{
	struct series way_ns[2] = {0}, call_ns[2] = {0}, ratio = {0};

	time_limit(600);
	side_work = work;
	side_agent_main(argc, argv);
	sandbox_enter();
	switches_in_force("IBM_AS_NOTIFY_EN");
	side_open(&a, NULL);
	side_start(&b);
	for (int i = 0; i < BENCH_RUNS; i++) {
		for (int notify = 0; notify < 2; notify++) {
			measure(notify);
			series_add(&way_ns[notify], median(one_way));
			series_add(&call_ns[notify], median(call));
		}
		series_add(&ratio, way_ns[1].value[i] / way_ns[0].value[i]);
	}
	series_print(&way_ns[0], "wake_channel_ns", "8B");
	series_print(&way_ns[1], "wake_as_notify_ns", "8B");
	series_print(&ratio, "wake_as_notify/channel", "8B");
	series_print(&call_ns[0], "waker_channel_ns", "8B");
	series_print(&call_ns[1], "waker_as_notify_ns", "8B");
	side_stop(&b);
	side_stop(&a);
	switches_in_force(NULL);
	sandbox_leave();
	return 0;
}
