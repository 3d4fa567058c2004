/* SPDX-License-Identifier: MIT */
/*
 * RESET beside threads that post: what was posted before is gone, and what comes later is refused.
 * Nothing of it is executed, or taken by a message, once the queue pair is connected again.
 *
 * One thread posts as fast as it can while the other one resets the queue pair. When both are done,
 * the queue pair is connected again, and nothing is posted.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "lib/built_queue.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"

#define ROUNDS 400
#define LIST   8
#define DEPTH  256
#define TARGET (1u << 20) /* in the arena */

static struct side a;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;
static _Atomic bool stop;
static _Atomic unsigned int turns;
static unsigned int refused_otherwise;

static void open_queue(void)
{
	qp = built_queue(a.node, DEPTH, &cq);
	ex = ibv_qp_to_qp_ex(qp);
}

static void to_rts(void)
{
	if (connect_qp(qp, connect_attr(qp->qp_num, &a.node->info.gid)))
		DIE("to RTS");
}

static int to_reset(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int completions(void)
{
	struct ibv_wc wc[LIST];
	int n, sum = 0;

	while ((n = ibv_poll_cq(cq, LIST, wc)) > 0)
		sum += n;
	return sum;
}

/* --- who posts --------------------------------------------------------------------- */

static void post_writes(void)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, 0, 8);
	struct ibv_send_wr wr[LIST] = {0}, *bad;
	int err;

	for (int i = 0; i < LIST; i++) {
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].wr.rdma.remote_addr = a.info.base[KEY_FULL] + TARGET;
		wr[i].wr.rdma.rkey = a.info.key[KEY_FULL];
		wr[i].next = i + 1 < LIST ? &wr[i + 1] : NULL;
	}
	err = ibv_post_send(qp, wr, &bad);
	refused_otherwise += err != 0 && err != EINVAL && err != ENOMEM;
}

static void build_writes(void)
{
	int err;

	ibv_wr_start(ex);
	for (int i = 0; i < LIST; i++) {
		ibv_wr_rdma_write(ex, a.info.key[KEY_FULL], a.info.base[KEY_FULL] + TARGET);
		ibv_wr_set_sge(ex, a.info.lkey[KEY_FULL], a.info.base[KEY_FULL], 8);
	}
	err = ibv_wr_complete(ex);
	refused_otherwise += err != 0 && err != EINVAL && err != ENOMEM;
}

static void post_receives(void)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, 0, 8);
	struct ibv_recv_wr wr[LIST] = {0}, *bad;
	int err;

	for (int i = 0; i < LIST; i++) {
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < LIST ? &wr[i + 1] : NULL;
	}
	err = ibv_post_recv(qp, wr, &bad);
	refused_otherwise += err != 0 && err != EINVAL && err != ENOMEM;
}

static void *post_until_stop(void *arg)
{
	void (*const *post)(void) = arg;

	while (!atomic_load(&stop)) {
		(*post)();
		atomic_fetch_add(&turns, 1);
	}
	return NULL;
}

/* --- rounds ------------------------------------------------------------------------ */

/* Reset it at any moment. */
static void reset_beside(void (*const *post)(void), unsigned int moment)
{
	unsigned int begin = atomic_load(&turns);
	pthread_t thread;

	atomic_store(&stop, false);
	NEED(pthread_create(&thread, NULL, post_until_stop, (void *)(uintptr_t)post) == 0);
	while (atomic_load(&turns) == begin)
		;
	for (volatile unsigned int i = 0; i < moment; i++)
		;
	EXPECT(to_reset() == 0, "to RESET");
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	EXPECT(completions() == 0, "completions after RESET");
}

/* Nothing has been posted since. In the error state, what is there would be flushed. */
static void expect_nothing(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	uint8_t *target = a.node->arena + TARGET;
	int n;

	memset(target, 0, 8);
	memset(a.node->arena, 0xff, 8);
	to_rts();
	n = completions();
	if (ibv_modify_qp(qp, &error, IBV_QP_STATE))
		DIE("to ERR");
	n += completions();
	EXPECT(n == 0, "%d requests of before the RESET", n);
	EXPECT(target[0] == 0, "an RDMA WRITE of before the RESET");
	NEED(to_reset() == 0);
}

static const struct {
	const char *name;
	void (*post)(void);
} rows[] = {
	{"ibv_post_send()", post_writes},
	{"ibv_wr_complete()", build_writes},
	{"ibv_post_recv()", post_receives},
};

/* The program's own mistake: nobody else can end the list that it has begun. */
static void reset_within_a_list(void)
{
	row("RESET between ibv_wr_start() and ibv_wr_abort(): EBUSY");
	to_rts();
	ibv_wr_start(ex);
	EXPECT(to_reset() == EBUSY, "not busy");
	ibv_wr_abort(ex);
	EXPECT(to_reset() == 0, "to RESET");
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	side_open(&a, NULL);
	open_queue();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("RESET beside %s", rows[i].name);
		for (unsigned int r = 0; r < ROUNDS; r++) {
			to_rts();
			reset_beside(&rows[i].post, r % 50 * 400);
			expect_nothing();
		}
	}
	EXPECT(refused_otherwise == 0, "%u posts were refused otherwise", refused_otherwise);
	reset_within_a_list();
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "destroy");
	side_stop(&a);
	return sandbox_end();
}
