/* SPDX-License-Identifier: MIT */
/*
 * What a poller does with entries that a peer writes again meanwhile, or that come while it has
 * yielded its core.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "copy/copy.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "queue/qp.h"
#include "registry/directory.h"
#include "transport/transport.h"
#include "unit/memory/seg_fixture.h"

#define RQ_AT  (7ull << 26)
#define CQ_AT  (8ull << 26)
#define INDEX  1u
#define SLOTS  8u
#define QPN    77u
#define PD     3u
#define KEY    (INDEX << 8 | 7)
#define ROOM   AV_CQE_DATA /* of the buffer, */
#define BEHIND 256u	   /* and bytes behind it that nobody may touch */

static struct av_cq_shared *cq;
static struct av_rq_shared *rq;
static uint8_t buffer[ROOM + BEHIND];

static int group_setup(void **state)
{
	return own_directory_join(state) || av_copy_init();
}

static void set_up_key(void)
{
	struct av_key *k = av_key_entry(&fake.seg, KEY);

	CHECK(k);
	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = IBV_ACCESS_LOCAL_WRITE;
	k->base = k->addr = (uintptr_t)buffer;
	k->length = ROOM;
	atomic_store(&k->key, KEY);
}

static void set_up_queues(void)
{
	rq = av_rq_at(&fake.seg, INDEX);
	rq->ring = RQ_AT;
	rq->mask = SLOTS - 1;
	rq->max_sge = 1;
	rq->stride = 2 * AV_CACHE_LINE;
	rq->capacity = SLOTS;
	rq->pd = PD;
	cq = av_cq_at(&fake.seg, INDEX);
	cq->ring[0] = CQ_AT;
	cq->mask[0] = SLOTS - 1;
	cq->capacity = SLOTS;
}

static int setup(void **state)
{
	fake_open(&fake, 1);
	fake_tables(&fake);
	set_up_key();
	set_up_queues();
	memset(buffer, 0xee, sizeof(buffer));
	return 0;
}

static void expect_untouched(const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != 0xee)
			fail_msg("byte %zu was written", (size_t)(at - buffer) + i);
}

/* --- a message in its completion, whose length changes --------------------------- */

static _Atomic bool stop;

static void *change_length(void *arg)
{
	struct av_cqe *ring = av_cq_entry(&fake.seg, cq, 0, 0);

	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		for (unsigned int i = 0; i < SLOTS; i++)
			__atomic_store_n(&ring[i].data_len, i & 1 ? 8 : 255, __ATOMIC_RELAXED),
				__atomic_store_n(&ring[i].data_len, i & 1 ? 255 : 8,
						 __ATOMIC_RELAXED);
	return NULL;
}

static void post_and_complete(uint32_t number)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = ROOM, .lkey = KEY};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct av_cqe e = {.qpn = QPN,
			   .queue = INDEX,
			   .wqe = number,
			   .flags = AV_CQE_RECV,
			   .opcode = IBV_WC_RECV,
			   .data_len = 8,
			   .byte_len = 8};

	assert_int_equal(av_rq_post(&fake.seg, rq, NULL, &wr, &bad), 0);
	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), 0);
}

TEST_WITH(a_length_that_changes_is_checked_as_it_is_used, setup, close_fake)
{
	struct ibv_wc wc;
	pthread_t thread;

	if (UNDER_TSAN)
		skip(); /* it is a race, of a peer that means ill */
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, change_length, NULL), 0);
	for (uint32_t i = 0; i < (SANITIZED ? 50000 : 300000); i++) {
		post_and_complete(i);
		assert_int_equal(av_poll(&fake.seg, cq, 1, &wc, NULL), 1);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	expect_untouched(buffer + ROOM, BEHIND);
}

/* --- a completion that comes while nothing is there ------------------------------- */

static bool comes; /* a message, when the poller yields its core */

/* In the place of the C library's. */
int sched_yield(void)
{
	if (comes)
		post_and_complete(0);
	comes = false;
	return 0;
}

/* Programs take "empty" for what holds when the call returns. */
TEST_WITH(what_comes_while_a_poller_yields_is_taken, setup, close_fake)
{
	struct ibv_wc wc;
	int n = 0;

	comes = true;
	for (int i = 0; i < 100000 && comes; i++) {
		assert_int_equal(n, 0);
		n = av_poll(&fake.seg, cq, 1, &wc, NULL);
	}
	assert_false(comes);
	assert_int_equal(n, 1);
	assert_int_equal(wc.qp_num, QPN);
}

int main(void)
{
	return run_cases(group_setup, own_directory_leave);
}
