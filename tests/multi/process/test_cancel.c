/* SPDX-License-Identifier: MIT */
/*
 * Threads are cancelled while they are in verbs: no verb is a cancellation point, so that none is
 * left half done, and no lock or execution right stays taken.
 *
 * Each thread goes round and round one kind of verbs. It is cancelled at any moment, and ends at
 * the only cancellation point that is its own. Then the objects that it used must work for the next
 * one. A verb that was left in the midst keeps its locks, so that the next thread, or the end of
 * the test, would wait for ever: time_limit() ends that.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define ROUNDS 200 /* of each kind */
#define SELF   0   /* queue pairs: connected with itself, */
#define OTHER  1   /* with another process */
#define CQ     2   /* with events */
#define BYTES  4096

static struct side a, b;
static _Atomic unsigned int turns;

/* --- what a thread does ------------------------------------------------------------ */

/* With an armed completion queue: an event is a write() by the thread that posts. */
static void do_transfer(void)
{
	struct node_send s = {
		.opcode = IBV_WR_SEND,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, 0, BYTES)},
	};
	struct node_recv r = {.num_sge = 1, .sge = {side_sge(&a, KEY_FULL, 1 << 20, BYTES)}};
	struct node_send w = {
		.opcode = IBV_WR_RDMA_WRITE,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, 0, BYTES)},
		.remote_addr = b.info.base[KEY_FULL],
		.rkey = b.info.key[KEY_FULL],
	};
	struct ibv_wc wc[3];

	node_arm(a.node, CQ, 0);
	node_post_recv(a.node, SELF, &r, 1);
	node_post_send(a.node, SELF, &s, 1);
	node_arm(a.node, CQ, 0);
	node_post_send(a.node, OTHER, &w, 1);
	node_poll(a.node, CQ, 3, 0, wc);
}

static void do_register(void)
{
	struct ibv_mr *mr =
		ibv_reg_mr(a.node->pd, a.node->arena, 3 * BYTES, IBV_ACCESS_LOCAL_WRITE);

	if (mr)
		ibv_dereg_mr(mr);
}

static void do_create(void)
{
	struct ibv_cq *cq = ibv_create_cq(a.node->ctx, 10, NULL, a.node->channel, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp = cq ? ibv_create_qp(a.node->pd, &init) : NULL;

	if (qp) {
		ibv_modify_qp(qp, &attr, IBV_QP_STATE);
		ibv_destroy_qp(qp);
	}
	if (cq)
		ibv_destroy_cq(cq);
}

static void do_open(void)
{
	struct ibv_context *ctx = ibv_open_device(a.node->ctx->device);
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (!ctx)
		return;
	ibv_query_port(ctx, 1, &port);
	ibv_query_gid(ctx, 1, 0, &gid);
	ibv_close_device(ctx);
}

static const struct {
	const char *name;
	void (*act)(void);
} rows[] = {
	{"a transfer with events", do_transfer},
	{"registration", do_register},
	{"queues", do_create},
	{"the device", do_open},
};

/* --- cancelling --------------------------------------------------------------------- */

static void *act_for_ever(void *act)
{
	void (*const *f)(void) = act;

	for (;; pthread_testcancel()) {
		int before;

		(*f)();
		atomic_fetch_add(&turns, 1);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
		EXPECT(before == PTHREAD_CANCEL_ENABLE, "a verb left cancellation off");
	}
	return NULL;
}

/* What a thread left when it was cancelled between posting and polling. */
static void tidy(void)
{
	struct ibv_wc wc[64];

	while (node_poll(a.node, CQ, 64, 0, wc) > 0)
		;
	while (node_comp_event(a.node, 0) >= 0)
		;
}

static void cancel_rounds(void (*const *act)(void))
{
	for (unsigned int i = 0; i < ROUNDS && failures() == 0; i++) {
		unsigned int before = atomic_load(&turns);
		pthread_t thread;
		void *result;

		EXPECT(pthread_create(&thread, NULL, act_for_ever, (void *)(uintptr_t)act) == 0,
		       "thread");
		while (atomic_load(&turns) == before) /* it has got through once */
			sched_yield();
		usleep(i * 7 % 300);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		EXPECT(result == PTHREAD_CANCELED, "it ended by itself");
		tidy();
	}
}

/* --- the rows ----------------------------------------------------------------------- */

static void open_queue(void)
{
	struct node_qp_spec spec = spec_default();

	spec.send_cq = spec.recv_cq = CQ;
	if (side_create_cq(&a, CQ, 256, true))
		DIE("completion queue");
	pair_create(&a, SELF, &a, SELF, &spec);
	pair_connect(&a, SELF, NULL, &a, SELF, NULL);
	if (side_create_cq(&b, CQ, 256, false))
		DIE("completion queue");
	pair_create(&a, OTHER, &b, OTHER, &spec);
	pair_connect(&a, OTHER, NULL, &b, OTHER, NULL);
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(120);
	sandbox_enter();
	side_start(&b);
	side_open(&a, NULL);
	open_queue();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("threads cancelled in: %s", rows[i].name);
		cancel_rounds(&rows[i].act);
	}
	row("everything ends");
	pair_destroy(&a, SELF, &a, SELF);
	pair_destroy(&a, OTHER, &b, OTHER);
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
	return summary();
}
