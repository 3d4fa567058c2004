/* SPDX-License-Identifier: MIT */
/* Who exits waits for a lock of another thread's, and not for its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/lock.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define PATIENCE_MS 30000u
#define TRIES	    5u /* a busy machine may take long over one */

static pthread_mutex_t mutex = AV_EXIT_MUTEX;
static _Atomic int locked;

TEST(a_free_one_is_taken)
{
	assert_true(av_exit_lock(&mutex));
	pthread_mutex_unlock(&mutex);
}

/* A signal's handler exits. */
TEST(its_own_is_not_awaited)
{
	bool at_once = false;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < TRIES && !at_once; i++) {
		uint64_t begin = av_now_ns();

		assert_false(av_exit_lock(&mutex));
		at_once = av_now_ns() - begin < AV_PEER_TIMEOUT_NS / 2;
	}
	assert_true(at_once);
	pthread_mutex_unlock(&mutex);
}

static void *hold_until_waited_for(void *arg)
{
	pthread_mutex_lock(&mutex);
	atomic_store(&locked, 1);
	(void)WAIT_UNTIL(task_sleeps(getpid()), PATIENCE_MS);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* On a busy machine it may hold it for longer than the wait. */
TEST(another_threads_is_awaited)
{
	pthread_t thread;
	bool had = false;

	for (unsigned int i = 0; i < TRIES && !had; i++) {
		uint64_t begin;

		atomic_store(&locked, 0);
		assert_int_equal(pthread_create(&thread, NULL, hold_until_waited_for, NULL), 0);
		assert_true(WAIT_UNTIL(atomic_load(&locked), PATIENCE_MS));
		begin = av_now_ns();
		had = av_exit_lock(&mutex);
		assert_true(had || av_now_ns() - begin >= AV_PEER_TIMEOUT_NS / 2);
		if (had)
			pthread_mutex_unlock(&mutex);
		pthread_join(thread, NULL);
	}
	assert_true(had);
}

static void *hold_for_ever(void *arg)
{
	pthread_mutex_lock(&mutex);
	return NULL;
}

TEST(not_for_ever)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, hold_for_ever, NULL), 0);
	pthread_join(thread, NULL);
	assert_false(av_exit_lock(&mutex));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
