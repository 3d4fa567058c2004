/* SPDX-License-Identifier: MIT */
/* Waiting for the event of a CQ on a word of its own. */
#include "queue/notify.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hw_wait.h"
#include "observe/log.h"

#define REST_NS 50000u /* about the cost of putting a thread to sleep and waking it */

uint64_t av_notify_nap_ns = 50000000u;

static const struct av_hw_wait *rest;

/* "futex", or the name of an instruction. On one core the waker could not run beside a rest. */
static void choose_rest(void)
{
	const char *name = secure_getenv("ANYVERBS_AS_NOTIFY");

	if (!name)
		rest = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? av_hw_wait_best() : NULL;
	else if (strcmp(name, "futex"))
		rest = av_hw_wait_by_name(name);
	if (name && !rest && strcmp(name, "futex"))
		av_log(AV_LOG_WARN, "ANYVERBS_AS_NOTIFY: this machine does not have '%.32s'", name);
}

void av_cq_notify_make(struct av_cq_shared *cq)
{
	atomic_store(&cq->notify, AV_CQ_NOTIFY_MADE);
}

void av_cq_notify_wake(struct av_cq_shared *cq)
{
	if (atomic_load(&cq->waiters))
		syscall(SYS_futex, &cq->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Take the event, if there is one. */
static bool take(struct av_cq_shared *cq)
{
	uint32_t there = 1;

	return atomic_compare_exchange_strong(&cq->ready, &there, 0);
}

/* Rest on the core for about as long as putting the thread to sleep would cost. */
static void rest_until(struct av_cq_shared *cq, uint64_t until_ns)
{
	while (atomic_load(&cq->ready) == 0 && av_now_ns() < until_ns)
		rest->wait(&cq->ready, 0);
}

/* Return: 0 or errno */
static int futex_wait(_Atomic uint32_t *word, uint64_t until_ns)
{
	struct timespec until = av_timespec(until_ns);

	/* Not FUTEX_PRIVATE: other processes wake this word, too. */
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET, 0, &until, NULL, FUTEX_BITSET_MATCH_ANY)
		       ? errno
		       : 0;
}

/* Sleep until the event or @until_ns. @cq already counts this thread in @waiters. */
static int sleep_until(struct av_seg *seg, uint32_t index, struct av_cq_shared *cq,
		       uint64_t until_ns)
{
	int err = 0;

	while (!take(cq)) {
		uint64_t now = av_now_ns();

		if (err == EINTR)
			return EINTR;
		if (now >= until_ns)
			return ETIMEDOUT;
		err = futex_wait(&cq->ready, until_ns - now < av_notify_nap_ns
						     ? until_ns
						     : now + av_notify_nap_ns);
		if (err == ETIMEDOUT)
			av_cq_look_again(seg, index);
	}
	return 0;
}

int av_cq_wait(struct av_seg *seg, uint32_t index, uint64_t until_ns)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int ret;

	pthread_once(&once, choose_rest);
	if (take(cq))
		return 0;
	if (rest) {
		uint64_t end = av_now_ns() + REST_NS;

		rest_until(cq, end < until_ns ? end : until_ns);
	}
	atomic_fetch_add(&cq->waiters, 1);
	ret = sleep_until(seg, index, cq, until_ns);
	atomic_fetch_sub(&cq->waiters, 1);
	return ret;
}
