/* SPDX-License-Identifier: MIT */
/* The tokens of a queue pair: whose own the requester's may become, and what is made of the
 * responder's when its holder dies over the flushing of receive requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "registry/directory.h"
#include "queue/qp.h"
#include "transport/drive.h"
#include "transport/state.h"
#include "lib/own_directory.h"
#include "unit/memory/fake_seg.h"

#define INDEX 1u

static struct fake_seg f;
static struct av_qp_end end;

static void set_up(bool own)
{
	fake_open(&f, 1);
	fake_tables(&f);
	f.seg.own = own;
	end = (struct av_qp_end){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->index = INDEX;
}

/* There is nothing to be executed. */
static void drive(void)
{
	av_drive(&end, NULL);
}

static void change_state(void)
{
	av_qp_quiesce(&end);
	av_qp_resume(&end);
}

static const struct {
	const char *name;
	void (*take)(void);
	bool own; /* the queue pair, this process' */
} rows[] = {
	{"driving its own", drive, true},
	{"driving a peer's", drive, false},
	{"changes of state of its own", change_state, true},
	{"changes of state of another's, which was opened by its number", change_state, false},
};

static void of_its_own_process_only(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint64_t thread;

		set_up(rows[i].own);
		for (uint32_t n = 0; n < 2 * AV_BIAS_TURNS; n++)
			rows[i].take();
		thread = atomic_load(&end.qp->exec.thread);
		assert_int_equal(av_biased_holder(&end.qp->exec), 0);
		if (rows[i].own ? thread != av_bias_self : thread != 0)
			fail_msg("%s: %llx", rows[i].name, (unsigned long long)thread);
		fake_close(&f);
	}
}

#define RQ_AT	 (7ull << 26)
#define CQ_AT	 (8ull << 26)
#define SLOTS	 8u
#define RECEIVES 2u
#define DEAD	 0x7ffffffu /* identity of no process */
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
	cq->ring = CQ_AT;
	rq->mask = SLOTS - 1;
	cq->mask = SLOTS - 1;
	rq->capacity = cq->capacity = cq->level = SLOTS;
	end.qp->type = IBV_QPT_RC;
	end.qp->rq = end.qp->recv_cq = INDEX;
	atomic_store(&end.qp->qpn, QPN);
	for (uint32_t i = 0; i < RECEIVES; i++)
		assert_int_equal(av_rq_post(&f.seg, rq, &wr, &bad), 0);
	atomic_store(&end.qp->state, IBV_QPS_ERR);
	atomic_store(&end.qp->resp.owner, DEAD);
	return cq;
}

static void flushed_after_death(void **state)
{
	/* Before the first request is taken; and with that in hand. */
	for (uint32_t taken = 0; taken < 2; taken++) {
		struct av_cq_shared *cq = failed_with_receives();

		if (taken)
			assert_non_null(
				av_rq_take(&f.seg, av_rq_at(&f.seg, INDEX), 0, &end.qp->receiving));
		change_state();
		assert_int_equal(atomic_load(&cq->tail), RECEIVES);
		for (uint32_t i = 0; i < RECEIVES; i++)
			assert_int_equal(av_cq_present(&f.seg, cq, i)->status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(end.qp->receiving, 0);
		fake_close(&f);
	}
}

/* The event of a queue pair with a shared receive queue. */
static void last_wqe_reached_after_death(void **state)
{
	(void)failed_with_receives();
	end.qp->srq = 1;
	change_state();
	assert_int_equal(atomic_load(&end.qp->last_wqe), 1);
	fake_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_its_own_process_only),
		cmocka_unit_test(flushed_after_death),
		cmocka_unit_test(last_wqe_reached_after_death),
	};
	int ret = own_directory_join(NULL);

	if (ret == 0 && !av_barrier_is_light)
		ret = 77; /* no membarrier(2) here: no lock is anybody's own */
	if (ret == 0)
		ret = cmocka_run_group_tests(tests, NULL, NULL);
	(void)own_directory_leave(NULL);
	return ret;
}
