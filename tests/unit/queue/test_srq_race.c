/* SPDX-License-Identifier: MIT */
/*
 * Threads take requests of a shared receive queue at the same time: each is completed once, or its
 * completion is dropped, and the poster finds its slot.
 */
#include <pthread.h>
#include <unistd.h>

#include "lib/sanitized.h"
#include "lib/unit.h"
#include "unit/queue/srq_fixture.h"

#define TAKERS	 3u
#define REQUESTS (SANITIZED ? 20000u : 200000u)
#define LARGER	 64u

static _Atomic uint32_t times[REQUESTS + 1]; /* that each request was completed */
static _Atomic uint32_t completed;

static void *take_on_and_on(void *arg)
{
	uint32_t qpn = (uint32_t)(uintptr_t)arg, turn = 0, receiving;

	while (atomic_load(&completed) < REQUESTS) {
		uint64_t wr_id = take(qpn, &receiving);

		if (!wr_id)
			continue;
		if (++turn % 4 == 0) {
			av_rq_untake(seg, rq, qpn, receiving - 1);
			continue;
		}
		atomic_fetch_add(&times[wr_id], 1);
		if (turn % 4 == 1)
			av_rq_drop(seg, rq, receiving - 1);
		else
			av_rq_freed(seg, rq, receiving - 1);
		atomic_fetch_add(&completed, 1);
	}
	return NULL;
}

/* Grows in between, which it can do only so often. */
static void post_all(void)
{
	uint32_t capacity = CAPACITY;

	for (uint32_t i = 1; i <= REQUESTS; i++) {
		while (post_one(i))
			av_pause();
		if (i % (REQUESTS / 8) == 0 && capacity < LARGER) {
			capacity *= 2;
			assert_int_equal(av_rq_resize(seg, rq, capacity), 0);
		}
	}
}

TEST_WITH(each_request_is_completed_once, set_up, tear_down)
{
	pthread_t thread[TAKERS];

	for (uintptr_t i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_on_and_on, (void *)(A + i)),
				 0);
	post_all();
	for (unsigned int i = 0; i < TAKERS; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 1; i <= REQUESTS; i++)
		assert_int_equal(atomic_load(&times[i]), 1);
	assert_int_equal(atomic_load(&rq->tail), REQUESTS);
	assert_int_equal(av_rq_resize(seg, rq, LARGER), 0); /* looks for those that were dropped */
	assert_int_equal(atomic_load(&rq->freed), REQUESTS);
}

int main(void)
{
	alarm(120);
	return run_cases(NULL, NULL);
}
