/* SPDX-License-Identifier: MIT */
/* The timer thread. */
#include "transport/transport.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"

struct av_timer {
	struct av_seg *seg; /* borrowed: the timer ends before the segment */
	struct av_thread *thread;
	_Atomic bool stop;
	_Atomic uint64_t awake_ns; /* when the thread looks next; 0: it is looking */
	_Atomic bool qp[AV_MAX_QP + AV_OBJ_CHUNK]; /* by index: has it ever waited? */
	_Atomic uint32_t qp_end;		   /* one past the last of them */
	pthread_mutex_t cq_mutex; /* guards the following; held while the CQs are looked at */
	uint8_t cq[AV_MAX_CQ + AV_OBJ_CHUNK]; /* by index: may its events be put off? */
	uint32_t cq_end;		      /* one past the last of them */
};

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Drive the queue pairs whose retry time has come. Return: when to look again. */
static uint64_t progress_due_qps(struct av_timer *t)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < atomic_load(&t->qp_end); i++) {
		struct av_qp_ref end = {t->seg,
					atomic_load(&t->qp[i]) ? av_qp_at(t->seg, i) : NULL};

		if (end.qp)
			next = sooner(next, av_timer_look(&end));
	}
	return next;
}

/* Send the events of CQs that have been put off long enough. Return: when to look again. */
static uint64_t look_at_cqs(struct av_timer *t)
{
	uint64_t next = UINT64_MAX;

	AV_LOCKED(&t->cq_mutex);
	for (uint32_t i = 0; i < t->cq_end; i++)
		if (t->cq[i])
			next = sooner(next, av_cq_put_off(t->seg, i, av_now_ns()));
	return next;
}

static void wait_timer_doorbell(struct av_timer *t, uint32_t doorbell, uint64_t when)
{
	uint64_t now = av_now_ns();
	struct timespec ts = av_timespec(when > now ? when - now : 0);

	syscall(SYS_futex, &t->seg->head->timer_doorbell, FUTEX_WAIT, doorbell,
		when == UINT64_MAX ? NULL : &ts, NULL, 0);
}

static void *timer_main(void *arg)
{
	struct av_timer *t = arg;

	for (;;) {
		uint32_t doorbell = atomic_load(&t->seg->head->timer_doorbell);
		uint64_t next;

		/* After reading the doorbell: who stops the timer sets @stop, then rings. */
		if (atomic_load(&t->stop))
			break;
		atomic_store(&t->awake_ns, 0);
		next = sooner(progress_due_qps(t), look_at_cqs(t));
		next = sooner(next, av_timer_look_at_faults(t->seg));
		next = sooner(next, av_timer_look_at_events(t->seg));
		atomic_store(&t->awake_ns, next);
		wait_timer_doorbell(t, doorbell, next);
	}
	return NULL;
}

static struct av_timer *timer_create_for(struct av_seg *seg)
{
	struct av_timer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->seg = seg;
	pthread_mutex_init(&t->cq_mutex, NULL);
	if (av_thread_start(&t->thread, "anyverbs-timer", timer_main, t)) {
		pthread_mutex_destroy(&t->cq_mutex);
		free(t);
		return NULL;
	}
	return t;
}

static struct av_timer *timer_of(struct av_seg *seg)
{
	struct av_timer *t = atomic_load(&seg->timer);

	if (t)
		return t;
	AV_LOCKED(&seg->timer_mutex);
	t = atomic_load(&seg->timer);
	if (!t && !seg->timer_ended) {
		t = timer_create_for(seg);
		if (!t)
			av_warn_once("no thread for timeouts: requests that wait for a peer may "
				     "wait for ever");
		atomic_store(&seg->timer, t);
	}
	return t;
}

void av_timer_start(struct av_seg *seg)
{
	AV_UNCANCELLED;

	(void)timer_of(seg);
}

static void add_timer_qp(struct av_timer *t, uint32_t index)
{
	uint32_t end = atomic_load(&t->qp_end);

	if (index >= AV_ARRAY_SIZE(t->qp) || atomic_load(&t->qp[index]))
		return;
	while (end <= index && !atomic_compare_exchange_weak(&t->qp_end, &end, index + 1))
		;
	atomic_store(&t->qp[index], true);
}

void av_timer_arm(const struct av_qp_ref *end, uint64_t deadline_ns)
{
	AV_UNCANCELLED;
	struct av_timer *t;

	t = timer_of(end->seg);
	if (!t)
		return;
	add_timer_qp(t, end->qp->index);
	/*
	 * While the thread looks (0), it may have passed this queue pair already. While it sleeps
	 * beyond the deadline, it must be woken. If it stores its waking time after this load, it
	 * looks at @wait_reason after @wait_reason was set.
	 */
	if (atomic_load(&t->awake_ns) == 0 || atomic_load(&t->awake_ns) > deadline_ns)
		av_seg_wake_timer(end->seg);
}

int av_timer_arm_cq(struct av_seg *seg, uint32_t index)
{
	struct av_timer *t = timer_of(seg);

	if (!t || index >= sizeof(t->cq))
		return ENOMEM;
	pthread_mutex_lock(&t->cq_mutex);
	t->cq[index] = 1;
	if (t->cq_end <= index)
		t->cq_end = index + 1;
	pthread_mutex_unlock(&t->cq_mutex);
	av_seg_wake_timer(seg);
	return 0;
}

void av_timer_forget_cq(struct av_seg *seg, uint32_t index)
{
	struct av_timer *t = atomic_load(&seg->timer);

	if (!t || index >= sizeof(t->cq))
		return;
	AV_LOCKED(&t->cq_mutex);
	t->cq[index] = 0;
}

/*
 * Other threads may execute a queue pair that the program has left, until the segment has no users:
 * so no timer is started any more, and this one's memory goes with the segment.
 */
void av_timer_stop(struct av_seg *seg)
{
	struct av_timer *t;

	pthread_mutex_lock(&seg->timer_mutex);
	seg->timer_ended = true;
	t = atomic_load(&seg->timer);
	pthread_mutex_unlock(&seg->timer_mutex);
	if (!t)
		return;
	atomic_store(&t->stop, true);
	av_seg_wake_timer(seg);
	av_thread_join(t->thread);
}
