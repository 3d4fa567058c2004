/* SPDX-License-Identifier: MIT */
/*
 * The queue pair locks of a queue pair: taken and given back, held by another thread, and what is
 * made of the responder's when its holder dies. What waits in another process is left to that one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "queue/qp.h"
#include "registry/directory.h"
#include "transport/transport.h"
#include "unit/memory/fake_seg.h"

#define INDEX 1u

static struct fake_seg f;
static struct av_qp_ref end, peer; /* peer: under @req_lock */

static void set_up(bool own)
{
	fake_open(&f, 1);
	fake_tables(&f);
	f.seg.own = own;
	end = (struct av_qp_ref){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->index = INDEX;
}

static void expect_free(const char *name)
{
	if (atomic_load(&end.qp->req_lock.owner) || atomic_load(&end.qp->append.owner) ||
	    atomic_load(&end.qp->resp_lock.owner))
		fail_msg("%s: still held", name);
}

/* There is nothing to be executed. */
static void drive(void)
{
	av_sq_progress(&end, NULL);
}

static void post(void)
{
	bool with_lock = av_lock_try_both(&end.qp->req_lock, AV_RANK_REQUESTER, AV_RANK_APPEND);

	if (!with_lock)
		av_lock_acquire_plain(&end.qp->append, AV_RANK_APPEND);
	CHECK(av_lock_mine(&end.qp->append) && (!with_lock || av_lock_mine(&end.qp->req_lock)));
	av_lock_release(&end.qp->append);
	av_sq_progress_entered(&end, &peer, with_lock);
}

static void enter(void)
{
	av_lock_acquire_plain(&end.qp->req_lock, AV_RANK_REQUESTER);
	CHECK(av_lock_mine(&end.qp->req_lock));
	av_sq_progress_entered(&end, &peer, true);
}

static void change_state(void)
{
	assert_int_equal(av_qp_quiesce(&end), 0);
	CHECK(av_lock_mine(&end.qp->req_lock) == f.seg.own && av_lock_mine(&end.qp->resp_lock));
	av_qp_resume(&end);
}

static const struct {
	const char *name;
	void (*take)(void);
	bool own; /* the queue pair, this process' */
} rows[] = {
	{"driving its own", drive, true},
	{"driving a peer's", drive, false},
	{"posting to its own", post, true},
	{"an answer to its own", enter, true},
	{"changes of state of its own", change_state, true},
	{"changes of state of another's, which was opened by its number", change_state, false},
};

TEST(taken_and_given_back)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		set_up(rows[i].own);
		for (uint32_t n = 0; n < 3; n++) {
			rows[i].take();
			expect_free(rows[i].name);
		}
		fake_close(&f);
	}
}

#define DEAD 1000002u /* a process that is none */

static bool is_alive(uint32_t owner)
{
	return owner != DEAD;
}

/* The thread that has the lock will look again: nobody waits, and nobody takes it away. */
TEST(another_executes)
{
	void (*const tries[])(void) = {drive, post};

	for (size_t i = 0; i < AV_ARRAY_SIZE(tries); i++) {
		set_up(true);
		atomic_store(&end.qp->req_lock.owner, av_lock_self);
		tries[i]();
		CHECK(atomic_exchange(&end.qp->req_lock.owner, 0) == av_lock_self);
		expect_free("another executes");
		fake_close(&f);
	}
}

/* Its process is told, and its thread is woken only if a request waits there. */
TEST(what_waits_elsewhere_is_left_to_its_process)
{
	for (uint32_t waits = 0; waits < 2; waits++) {
		set_up(false);
		atomic_store(&end.qp->wait_reason, waits ? AV_WAIT_RNR : AV_WAIT_NONE);
		drive();
		assert_int_equal(atomic_load(&end.qp->kick), 1);
		assert_int_equal(atomic_load(&f.seg.head->timer_doorbell), waits);
		expect_free("left to its process");
		fake_close(&f);
	}
}

/*
 * The message that a dead holder of @resp_lock had under way may be half done: the queue pair
 * fails.
 */
TEST(the_executor_died)
{
	set_up(true);
	atomic_store(&end.qp->qpn, 77);
	atomic_store(&end.qp->state, IBV_QPS_RTS);
	atomic_store(&end.qp->resp_lock.owner, DEAD);
	change_state();
	assert_int_equal(atomic_load(&end.qp->state), IBV_QPS_ERR);
	expect_free("the executor died");
	fake_close(&f);
}

static void *execute_for_long(void *right)
{
	const struct timespec longer = {.tv_sec = AV_PEER_TIMEOUT_NS / 1000000000,
					.tv_nsec = 300000000};

	nanosleep(&longer, NULL);
	atomic_store(&((struct av_lock *)right)->owner, 0);
	return NULL;
}

/* Another thread is patient with a peer: its right is waited for, as long as that takes. */
TEST(a_thread_executes_for_long)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		struct av_lock *right;

		set_up(true);
		right = i ? &end.qp->resp_lock : &end.qp->req_lock;
		atomic_store(&right->owner, av_lock_self);
		assert_int_equal(pthread_create(&thread, NULL, execute_for_long, right), 0);
		change_state();
		assert_int_equal(pthread_join(thread, NULL), 0);
		expect_free("another thread executes");
		fake_close(&f);
	}
}

#define RQ_AT	 (7ull << 26)
#define CQ_AT	 (8ull << 26)
#define SLOTS	 8u
#define RECEIVES 2u
#define QPN	 77u

/* In ERR, with receive requests; whoever failed it has died. */
static struct av_cq_shared *failed_with_receives(void)
{
	struct av_rq_shared *rq;
	struct av_cq_shared *cq;
	struct ibv_recv_wr wr = {.wr_id = 42}, *bad;

	set_up(true);
	rq = av_rq_at(&f.seg, INDEX);
	cq = av_cq_at(&f.seg, INDEX);
	CHECK(rq && cq);
	rq->ring = RQ_AT;
	rq->stride = AV_CACHE_LINE;
	cq->ring[0] = CQ_AT;
	rq->mask = SLOTS - 1;
	cq->mask[0] = SLOTS - 1;
	rq->capacity = cq->producer[0].level = SLOTS;
	cq->capacity = SLOTS;
	end.qp->type = IBV_QPT_RC;
	end.qp->rq = end.qp->recv_cq = INDEX;
	atomic_store(&end.qp->qpn, QPN);
	for (uint32_t i = 0; i < RECEIVES; i++)
		assert_int_equal(av_rq_post(&f.seg, rq, NULL, &wr, &bad), 0);
	atomic_store(&end.qp->state, IBV_QPS_ERR);
	atomic_store(&end.qp->resp_lock.owner, DEAD);
	return cq;
}

TEST(flushed_after_death)
{
	/* Before the first request is taken; and with that in hand. */
	for (uint32_t taken = 0; taken < 2; taken++) {
		struct av_cq_shared *cq = failed_with_receives();

		if (taken)
			assert_non_null(
				av_rq_take(&f.seg, av_rq_at(&f.seg, INDEX), 0, &end.qp->receiving));
		change_state();
		assert_int_equal(atomic_load(&cq->producer[0].tail), RECEIVES);
		for (uint32_t i = 0; i < RECEIVES; i++)
			assert_int_equal(av_cq_entry(&f.seg, cq, 0, i)->status,
					 IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(end.qp->receiving, 0);
		fake_close(&f);
	}
}

/* The event of a queue pair with a shared receive queue. */
TEST(last_wqe_reached_after_death)
{
	(void)failed_with_receives();
	end.qp->srq = 1;
	change_state();
	assert_int_equal(atomic_load(&end.qp->last_wqe), 1);
	fake_close(&f);
}

static int join(void **state)
{
	int ret = own_directory_join(state);

	av_lock_owner_alive = is_alive;
	return ret;
}

int main(void)
{
	return run_cases(join, own_directory_leave);
}
