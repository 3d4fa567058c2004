/* SPDX-License-Identifier: MIT */
/* Resting until a word changes, by each way this machine has. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/wait.h"
#include "lib/unit.h"

#define SECOND	  1000000000u
#define EXCHANGES 20000u

static _Atomic uint32_t word AV_ALIGNED(AV_CACHE_LINE), reply AV_ALIGNED(AV_CACHE_LINE);

/* Nothing here may wait longer than this, on whatever machine: each way returns by itself. */
static void wait_for_change(const struct av_hw_wait *way, _Atomic uint32_t *at, uint32_t from)
{
	uint64_t end = av_now_ns() + 60ull * SECOND;

	while (atomic_load(at) == from) {
		assert_true(av_now_ns() < end);
		way->wait(at, from);
	}
}

static void *answer(void *arg)
{
	for (uint32_t i = 0; i < EXCHANGES; i++) {
		wait_for_change(arg, &word, i);
		atomic_store(&reply, i + 1);
	}
	return NULL;
}

static void exchange(const struct av_hw_wait *way)
{
	pthread_t thread;

	atomic_store(&word, 0);
	atomic_store(&reply, 0);
	assert_int_equal(pthread_create(&thread, NULL, answer, (void *)(uintptr_t)way), 0);
	for (uint32_t i = 0; i < EXCHANGES; i++) {
		atomic_store(&word, i + 1);
		wait_for_change(way, &reply, i);
		assert_int_equal(atomic_load(&reply), i + 1);
	}
	pthread_join(thread, NULL);
}

TEST(each_way_notices_a_store)
{
	for (const struct av_hw_wait *w = av_hw_waits; w->name; w++)
		if (w->available())
			exchange(w);
}

TEST(each_way_returns_without_one)
{
	for (const struct av_hw_wait *w = av_hw_waits; w->name; w++) {
		atomic_store(&word, 7);
		for (int i = 0; w->available() && i < 100; i++) {
			w->wait(&word, 7); /* not for ever */
			w->wait(&word, 8); /* has changed already */
		}
	}
}

TEST(only_what_is_there_is_found)
{
	const struct av_hw_wait *best = av_hw_wait_best();

	for (const struct av_hw_wait *w = av_hw_waits; w->name; w++)
		assert_ptr_equal(av_hw_wait_by_name(w->name), w->available() ? w : NULL);
	assert_null(av_hw_wait_by_name("nosuch"));
	assert_null(av_hw_wait_by_name(""));
	assert_non_null(av_hw_wait_by_name("loop"));
	assert_true(!best || (best->resting && best->available()));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
