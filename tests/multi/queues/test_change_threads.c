/* SPDX-License-Identifier: MIT */
/*
 * Two threads that change one object: a queue pair's attributes, a CQ's size. Whoever comes first,
 * what the object says is what is in force. ThreadSanitizer sees what they touch at the same time.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"

#define CHANGES 5000
#define ROUNDS	1000
#define SMALL	10
#define LARGE	1000

static struct side a;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static pthread_barrier_t together;

static void open_queue(void)
{
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 4, .max_recv_wr = 16},
					.qp_type = IBV_QPT_RC};

	cq = ibv_create_cq(a.node->ctx, SMALL, NULL, NULL, 0);
	NEED(cq);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(a.node->pd, &init);
	NEED(qp && !pthread_barrier_init(&together, NULL, 2));
}

static void run_two(void *(*f)(void *arg), void *first, void *second)
{
	pthread_t thread[2];

	NEED(!pthread_create(&thread[0], NULL, f, first));
	NEED(!pthread_create(&thread[1], NULL, f, second));
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
}

/* --- a queue pair -------------------------------------------------------------------- */

static void to_reset(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

/* A step that the other thread has taken already, or has undone, is refused. */
static void *connect_and_reset(void *arg)
{
	const struct ibv_qp_attr attr = connect_attr(qp->qp_num, &a.node->info.gid);

	(void)arg;
	for (unsigned int r = 0; r < CHANGES; r++) {
		for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
			int err = connect_step(qp, attr, to);

			EXPECT(err == 0 || err == EINVAL, "step %d: %d", to, err);
		}
		to_reset();
	}
	return NULL;
}

static void *query(void *arg)
{
	for (unsigned int r = 0; r < ROUNDS; r++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		EXPECT(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	}
	return arg;
}

static void *modify_or_query(void *arg)
{
	return arg ? query(arg) : connect_and_reset(arg);
}

static void expect_state(enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(qp->state == state, "handle says %d", qp->state);
	NEED(ibv_query_qp(qp, &attr, 0, &init) == 0);
	EXPECT(attr.qp_state == state, "state is %d", attr.qp_state);
}

/* --- a CQ ------------------------------------------------------------------------------ */

static void *resize(void *arg)
{
	const int *cqe = arg;

	pthread_barrier_wait(&together);
	EXPECT(ibv_resize_cq(cq, *cqe) == 0, "ibv_resize_cq: errno %d", errno);
	return NULL;
}

/* Flushed receives fill it: one that is too small would lose the last. */
static void expect_room(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_wc wc[SMALL + 1];

	NEED(connect_step(qp, connect_attr(qp->qp_num, &a.node->info.gid), IBV_QPS_INIT) == 0);
	for (unsigned int i = 0; i < SMALL + 1; i++)
		NEED(ibv_post_recv(qp, &wr, &bad) == 0);
	NEED(ibv_modify_qp(qp, &error, IBV_QP_STATE) == 0);
	if (!EXPECT(ibv_poll_cq(cq, SMALL + 1, wc) == SMALL + 1, "cqe %d is not in force", cq->cqe))
		DIE("the CQ is broken");
	to_reset();
}

static void resize_row(void)
{
	int small = SMALL, large = LARGE;

	row("ibv_resize_cq() beside ibv_resize_cq()");
	for (unsigned int r = 0; r < ROUNDS; r++) {
		run_two(resize, &small, &large);
		EXPECT(cq->cqe == SMALL || cq->cqe == LARGE, "cqe %d", cq->cqe);
		if (cq->cqe == LARGE)
			expect_room();
	}
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	side_open(&a, NULL);
	open_queue();

	row("ibv_modify_qp() beside ibv_modify_qp()");
	run_two(modify_or_query, NULL, NULL);
	expect_state(IBV_QPS_RESET);
	row("ibv_modify_qp() beside ibv_query_qp()");
	run_two(modify_or_query, NULL, &a);
	expect_state(IBV_QPS_RESET);
	resize_row();

	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "destroy");
	side_stop(&a);
	return sandbox_end();
}
