/* SPDX-License-Identifier: MIT */
/*
 * A list of requests that a thread has begun by ibv_wr_start(3) is its own until it ends it. Other
 * threads wait, and change nothing meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "lib/built_queue.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"
#include "lib/wait.h"

#define DEPTH	 64
#define PATIENCE 30000
#define SOON	 2000 /* then whoever should wait goes on, and is found out, or late */
#define BYTES	 8
#define TARGET	 (1u << 20) /* in the arena */
#define THREADS	 4
#define LISTS	 500u
#define IN_LIST	 4u

static struct node *n;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;

static void open_queue(void)
{
	qp = built_queue(n, DEPTH, &cq);
	NEED(connect_qp(qp, connect_attr(qp->qp_num, &n->info.gid)) == 0);
	ex = ibv_qp_to_qp_ex(qp);
}

static uint8_t *target(void)
{
	return n->arena + TARGET;
}

static void begin_write(void)
{
	const struct ibv_mr *mr = n->mr[KEY_FULL];

	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)target());
}

static void add_bytes(void)
{
	ibv_wr_set_sge(ex, n->mr[KEY_FULL]->lkey, (uintptr_t)n->arena, BYTES);
}

static struct ibv_wc next_completion(void)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int got = 0;

	WAIT_UNTIL((got = ibv_poll_cq(cq, 1, &wc)) != 0, PATIENCE);
	EXPECT(got == 1 && wc.status == IBV_WC_SUCCESS, "%d completions, '%s'", got,
	       ibv_wc_status_str(wc.status));
	return wc;
}

/* --- another thread ------------------------------------------------------------------ */

static _Atomic pid_t other;
static _Atomic bool other_is_through;

struct job {
	pthread_t thread;
	void (*run)(void);
};

static void *other_main(void *arg)
{
	const struct job *job = arg;

	atomic_store(&other, gettid());
	job->run();
	atomic_store(&other_is_through, true);
	return NULL;
}

/* Returns when the other thread waits for this one, or has not. */
static void begin_other(struct job *job, void (*run)(void))
{
	atomic_store(&other, 0);
	atomic_store(&other_is_through, false);
	job->run = run;
	NEED(pthread_create(&job->thread, NULL, other_main, job) == 0);
	(void)WAIT_UNTIL(atomic_load(&other_is_through) || task_sleeps(atomic_load(&other)), SOON);
}

static void end_other(struct job *job)
{
	NEED(pthread_join(job->thread, NULL) == 0);
}

/* --- lists ----------------------------------------------------------------------------- */

static void start_and_abort(void)
{
	ibv_wr_start(ex);
	ibv_wr_abort(ex);
}

static void its_request_is_whole(void)
{
	struct job job;

	memset(n->arena, 0x5a, BYTES);
	memset(target(), 0, BYTES);
	ibv_wr_start(ex);
	begin_write();
	begin_other(&job, start_and_abort);
	add_bytes();
	EXPECT(ibv_wr_complete(ex) == 0, "errno %d", errno);
	end_other(&job);
	next_completion();
	EXPECT(memcmp(target(), n->arena, BYTES) == 0, "the bytes are missing");
}

static void its_error_is_told(void)
{
	struct ibv_sge too_many[DEPTH] = {{0}};
	struct job job;
	struct ibv_wc wc;

	ibv_wr_start(ex);
	begin_write();
	ibv_wr_set_sge_list(ex, DEPTH, too_many);
	begin_other(&job, start_and_abort);
	EXPECT_RET(ibv_wr_complete(ex), EINVAL);
	end_other(&job);
	EXPECT(ibv_poll_cq(cq, 1, &wc) == 0, "it was posted");
}

static _Atomic unsigned int refused, to_come;

static void *post_lists(void *arg)
{
	for (unsigned int list = 0; list < LISTS;) {
		int err;

		ibv_wr_start(ex);
		for (unsigned int i = 0; i < IN_LIST; i++) {
			begin_write();
			add_bytes();
		}
		err = ibv_wr_complete(ex);
		if (err == 0)
			list++;
		else if (err != ENOMEM)
			atomic_fetch_add(&refused, 1);
		else
			wait_moment();
		if (err && err != ENOMEM)
			break;
	}
	atomic_fetch_sub(&to_come, 1);
	return arg;
}

static void all_requests_of_many_are_whole(void)
{
	const struct ibv_wc *bad = NULL;
	unsigned int count = 0, empty = 0;
	uint64_t end = now_ms() + 60000;
	pthread_t thread[THREADS];
	struct ibv_wc wc;

	atomic_store(&to_come, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		NEED(pthread_create(&thread[i], NULL, post_lists, NULL) == 0);
	while ((atomic_load(&to_come) || count < THREADS * LISTS * IN_LIST) && now_ms() < end &&
	       !atomic_load(&refused) && !bad) {
		if (ibv_poll_cq(cq, 1, &wc) != 1)
			continue;
		count++;
		empty += wc.byte_len != BYTES;
		if (wc.status != IBV_WC_SUCCESS)
			bad = &wc;
	}
	EXPECT(!bad && !refused && count == THREADS * LISTS * IN_LIST,
	       "%u completions, %u lists refused, '%s'", count, atomic_load(&refused),
	       ibv_wc_status_str(bad ? bad->status : IBV_WC_SUCCESS));
	EXPECT(empty == 0, "%u requests without their bytes", empty);
	for (size_t i = 0; i < THREADS; i++)
		NEED(pthread_join(thread[i], NULL) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
	{"a request of a list that another thread waits for is whole", its_request_is_whole},
	{"an error in a list that another thread waits for is told", its_error_is_told},
	{"many threads make lists", all_requests_of_many_are_whole},
};

int main(void)
{
	struct side a = {0};

	sandbox_begin(200);
	side_open(&a, NULL);
	n = a.node;
	open_queue();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("%s", rows[i].name);
		rows[i].run();
	}
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "destroy");
	side_stop(&a);
	return sandbox_end();
}
