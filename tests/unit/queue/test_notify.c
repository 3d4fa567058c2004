/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the event of a CQ on its word, by each way of waiting that this machine has: what
 * ends a wait and what does not, and who appends an entry dying in each place where that could cost
 * the wake-up.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/wait.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "queue/cq.h"
#include "segment/pages.h"
#include "segment/segment.h"
#include "unit/memory/fake_seg.h"

#define INDEX	 1u
#define CQES	 64u
#define CHUNK_AT (1ul << 26)
#define RING_AT	 (1ul << 27)
#define HEAP_AT	 (1ul << 28)
#define MS	 1000000ull
#define NAP_NS	 (50 * MS)
#define LONG_NS	 (60000 * MS) /* nothing here takes that long */
#define WAITERS	 8
#define TRIES	 20
#define PEER	 2u /* identity of another process */
#define KILLS	 30

static struct fake_seg fake;
static struct av_cq_shared *cq;
static unsigned int exchanges = 5000;

static void set_up_cq(uint32_t index)
{
	struct av_cq_shared *it = av_cq_at(&fake.seg, index);

	it->capacity = CQES;
	it->mask[0] = CQES - 1;
	it->ring[0] = RING_AT + index * (CQES * sizeof(struct av_cqe));
	atomic_store(&it->id, 1);
	av_cq_notify_make(it);
	(void)av_cq_notify_waits(&fake.seg, index);
}

/* Where the machine is slow, a CQ is given another ring: queue/cq.h. */
static int set_up(void **state)
{
	fake_open(&fake, 1);
	if (!av_own_fd_keep(&fake.seg.file, dup(fake.fd)) ||
	    !av_heap_create(&fake.seg, HEAP_AT, HEAP_AT + (64ul << 20), 1))
		return -1;
	atomic_store(&fake.seg.head->chunk[AV_SLAB_CQ][0], CHUNK_AT);
	set_up_cq(INDEX);
	cq = av_cq_at(&fake.seg, INDEX);
	return 0;
}

static int tear_down(void **state)
{
	av_heap_destroy(&fake.seg);
	av_own_fd_close(&fake.seg.file);
	fake_close(&fake);
	return 0;
}

static const struct av_cqe plain = {.status = IBV_WC_SUCCESS,
				    .opcode = IBV_WC_RECV,
				    .flags = AV_CQE_RECV},
			   solicited = {.status = IBV_WC_SUCCESS,
					.opcode = IBV_WC_RECV,
					.flags = AV_CQE_RECV | AV_CQE_SOLICITED},
			   failed = {.status = IBV_WC_WR_FLUSH_ERR,
				     .opcode = IBV_WC_RECV,
				     .flags = AV_CQE_RECV};

static void push(const struct av_cqe *cqe)
{
	assert_int_equal(av_cq_push(&fake.seg, INDEX, cqe, NULL), 0);
}

static uint32_t tail_of(const struct av_cq_shared *of)
{
	return atomic_load(&of->producer[av_cq_used(of)].tail);
}

/* In a child: only the owner changes a CQ's producer ring. */
static void be_peer(void)
{
	av_lock_self = PEER;
	fake.seg.own = false;
}

static void drain(void)
{
	atomic_store(&cq->head, tail_of(cq));
}

static int wait_ns(uint64_t ns)
{
	return av_cq_wait(&fake.seg, INDEX, av_now_ns() + ns);
}

/* --- what is an event ------------------------------------------------------------ */

static const struct {
	enum av_cq_armed how;
	const struct av_cqe *cqe;
	bool before; /* it is there as the CQ is armed */
	int ret;
} rows[] = {
	{AV_CQ_NOT_ARMED, &plain, false, ETIMEDOUT},
	{AV_CQ_NOT_ARMED, &failed, false, ETIMEDOUT},
	{AV_CQ_ARMED_ANY, NULL, false, ETIMEDOUT},
	{AV_CQ_ARMED_ANY, &plain, false, 0},
	{AV_CQ_ARMED_ANY, &solicited, false, 0},
	{AV_CQ_ARMED_ANY, &failed, false, 0},
	{AV_CQ_ARMED_ANY, &plain, true, 0},
	{AV_CQ_ARMED_SOLICITED, NULL, false, ETIMEDOUT},
	{AV_CQ_ARMED_SOLICITED, &plain, false, ETIMEDOUT},
	{AV_CQ_ARMED_SOLICITED, &solicited, false, 0},
	{AV_CQ_ARMED_SOLICITED, &failed, false, 0},
	{AV_CQ_ARMED_SOLICITED, &plain, true, ETIMEDOUT},
	{AV_CQ_ARMED_SOLICITED, &solicited, true, 0},
};

TEST_WITH(events, set_up, tear_down)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int ret;

		tear_down(state);
		set_up(state);
		if (rows[i].before)
			push(rows[i].cqe);
		if (rows[i].how != AV_CQ_NOT_ARMED)
			av_cq_arm(&fake.seg, INDEX, rows[i].how);
		if (rows[i].cqe && !rows[i].before)
			push(rows[i].cqe);
		ret = wait_ns(rows[i].ret ? 2 * NAP_NS + MS : LONG_NS);
		if (ret != rows[i].ret)
			fail_msg("row %zu: %d", i, ret);
		if (wait_ns(0) != ETIMEDOUT)
			fail_msg("row %zu: one event ends two waits", i);
	}
}

TEST_WITH(arming_again_takes_an_event_back, set_up, tear_down)
{
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	push(&plain);
	drain();
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	assert_int_equal(wait_ns(0), ETIMEDOUT);
	push(&plain);
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY); /* not polled: it counts again */
	assert_int_equal(wait_ns(0), 0);
}

TEST_WITH(time_is_kept, set_up, tear_down)
{
	for (uint64_t ms = 0; ms < 200; ms += 33) {
		uint64_t begin = av_now_ns();

		assert_int_equal(av_cq_wait(&fake.seg, INDEX, begin + ms * MS), ETIMEDOUT);
		assert_true(av_now_ns() >= begin + ms * MS);
	}
}

/* A nap that would last longer is cut short. */
TEST_WITH(the_end_of_a_wait_does_not_wait_for_a_nap, set_up, tear_down)
{
	uint64_t begin = av_now_ns();

	av_notify_nap_ns = LONG_NS;
	assert_int_equal(wait_ns(30 * MS), ETIMEDOUT);
	assert_true(av_now_ns() - begin < LONG_NS / 2);
	av_notify_nap_ns = NAP_NS;
}

static uint64_t core_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* By then all code has run once, which takes an emulator its time. */
TEST_WITH(who_waits_leaves_the_core_to_others, set_up, tear_down)
{
	uint64_t begin;

	(void)wait_ns(NAP_NS);
	begin = core_ns();
	assert_int_equal(wait_ns(6 * NAP_NS), ETIMEDOUT);
	assert_true(core_ns() - begin < 3 * NAP_NS);
}

/* --- asleep ---------------------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	_Atomic pid_t task;
	uint64_t ns;
	int ret;
};

static _Atomic unsigned int returned;

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->task, gettid());
	w->ret = wait_ns(w->ns);
	atomic_fetch_add(&returned, 1);
	return NULL;
}

static bool all_sleep(struct waiter *w, int count)
{
	for (int i = 0; i < count; i++)
		if (!task_sleeps(atomic_load(&w[i].task)))
			return false;
	return true;
}

static void start(struct waiter *w, int count, uint64_t ns)
{
	atomic_store(&returned, 0);
	for (int i = 0; i < count; i++) {
		w[i].ns = ns;
		atomic_store(&w[i].task, 0);
		assert_int_equal(pthread_create(&w[i].thread, NULL, waiter_main, &w[i]), 0);
	}
	if (ns == LONG_NS)
		assert_true(WAIT_UNTIL(atomic_load(&cq->waiters) == (uint32_t)count, LONG_NS / MS));
	(void)WAIT_UNTIL(all_sleep(w, count), 20); /* awake yet, it is another good case */
}

static void until_returned(unsigned int count)
{
	(void)WAIT_UNTIL(atomic_load(&returned) >= count, LONG_NS / MS);
	assert_int_equal(atomic_load(&returned), count);
}

static void finish(struct waiter *w, int count, int ret)
{
	until_returned((unsigned int)count);
	for (int i = 0; i < count; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].ret, ret);
	}
	assert_int_equal(atomic_load(&cq->waiters), 0);
}

/* Return: true: it was held up, so that who waits may have raised the event for it (base/wait.h),
 * too */
static bool push_event(void)
{
	uint64_t begin;

	drain();
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	begin = av_now_ns();
	push(&plain);
	return av_now_ns() - begin > AV_STUCK_NS / 2;
}

/* Return: false: an event has come twice, perhaps */
static bool events_end_one_wait_each(struct waiter w[WAITERS])
{
	start(w, WAITERS, LONG_NS);
	for (unsigned int i = 0; i < WAITERS; i++) {
		assert_int_equal(atomic_load(&returned), i);
		if (push_event())
			return false;
		until_returned(i + 1);
	}
	return true;
}

TEST_WITH(one_event_ends_one_wait, set_up, tear_down)
{
	struct waiter w[WAITERS];
	int tries = 1;

	for (; !events_end_one_wait_each(w); tries++) {
		assert_in_range(tries, 1, TRIES);
		while (atomic_load(&returned) < WAITERS) {
			(void)push_event();
			wait_moment();
		}
		finish(w, WAITERS, 0);
		(void)wait_ns(0); /* what is left of the events */
	}
	finish(w, WAITERS, 0);
}

/* The event is for those who stay. */
TEST_WITH(who_gives_up_takes_no_event_along, set_up, tear_down)
{
	struct waiter hasty[WAITERS], patient;

	start(hasty, WAITERS, 30 * MS);
	finish(hasty, WAITERS, ETIMEDOUT);
	start(&patient, 1, LONG_NS);
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	push(&plain);
	finish(&patient, 1, 0);
}

static void handler(int signal)
{
}

TEST_WITH(a_signal_ends_a_wait, set_up, tear_down)
{
	const int flags[] = {0, SA_RESTART};

	for (size_t i = 0; i < 2; i++) {
		struct sigaction action = {.sa_handler = handler, .sa_flags = flags[i]};
		struct waiter w;

		sigaction(SIGUSR1, &action, NULL);
		start(&w, 1, LONG_NS);
		while (atomic_load(&returned) == 0) {
			pthread_kill(w.thread, SIGUSR1);
			wait_moment();
		}
		finish(&w, 1, EINTR);
		av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY); /* nothing was lost with it */
		push(&plain);
		assert_int_equal(wait_ns(LONG_NS), 0);
		drain();
	}
}

/* --- who appends dies ------------------------------------------------------------ */

/* In the middle of av_cq_push(): the entry is there, the event is not; its lock is taken over by
 * whoever wants it. */
static void publish_only(const struct av_cqe *cqe)
{
	struct av_cqe *ring = av_seg_at(&fake.seg, cq->ring[0], CQES * sizeof(*ring));
	uint32_t tail;

	av_lock_acquire_plain(&cq->producer[0].lock, AV_RANK_CQ);
	tail = atomic_load(&cq->producer[0].tail);
	ring[tail & cq->mask[0]] = *cqe;
	atomic_store(&cq->producer[0].tail, tail + 1);
	av_lock_release(&cq->producer[0].lock);
}

TEST_WITH(death_before_the_event, set_up, tear_down)
{
	struct waiter w;

	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	start(&w, 1, LONG_NS);
	publish_only(&plain);
	finish(&w, 1, 0);
	drain();
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_SOLICITED);
	start(&w, 1, 3 * NAP_NS);
	publish_only(&plain);
	finish(&w, 1, ETIMEDOUT);
}

TEST_WITH(death_between_event_and_wake, set_up, tear_down)
{
	struct waiter w[2];

	start(w, 2, LONG_NS);
	atomic_store(&cq->ready, 1);
	until_returned(1);
	atomic_store(&cq->ready, 1);
	finish(w, 2, 0);
}

static uint32_t randomly(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)*state * below >> 32);
}

/* A process that appends until it is killed, wherever it is then. */
static pid_t start_victim(uint32_t seed)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	be_peer();
	for (;;) {
		if (tail_of(cq) - atomic_load(&cq->head) < CQES / 2)
			(void)av_cq_push(&fake.seg, INDEX, &plain, NULL);
		for (uint32_t spin = randomly(&seed, 2000); spin; spin--)
			av_pause();
	}
}

static _Atomic pid_t victim;

/* The only other identity is the victim's, which lives until it has been waited for. */
static bool victim_lives(uint32_t owner)
{
	return atomic_load(&victim) != 0;
}

static void *kill_later(void *arg)
{
	uint32_t *seed = arg;

	let_go_on(2000 + randomly(seed, 5000));
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
	atomic_store(&victim, 0);
	return NULL;
}

/* Whatever the dead has published is told of. */
static void until_all_is_told(void)
{
	for (;;) {
		int ret;

		av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
		do
			ret = wait_ns(20 * MS);
		while (ret && atomic_load(&victim));
		if (ret && tail_of(cq) == atomic_load(&cq->head))
			return;
		if (ret && wait_ns(LONG_NS))
			fail_msg("an entry of the dead is not told of");
		drain();
	}
}

TEST_WITH(death_anywhere, set_up, tear_down)
{
	uint32_t seed = 1;

	av_lock_owner_alive = victim_lives;
	for (int i = 0; i < KILLS; i++) {
		pthread_t killer;

		atomic_store(&victim, start_victim(seed + (uint32_t)i));
		assert_true(victim > 0);
		assert_int_equal(pthread_create(&killer, NULL, kill_later, &seed), 0);
		until_all_is_told();
		pthread_join(killer, NULL);
	}
}

/* --- by the thousand; without the naps, which would hide that a wake-up was lost --- */

static void spin_a_while(uint32_t *seed)
{
	for (uint32_t spin = randomly(seed, 3000); spin; spin--)
		av_pause();
}

/* Arm, look, wait, answer: whatever comes between two of these must end the wait. @mine, @theirs:
 * numbers of CQs. */
static void exchange(uint32_t mine, uint32_t theirs, bool first, uint32_t seed)
{
	struct av_cq_shared *own = av_cq_at(&fake.seg, mine);

	for (unsigned int i = 0; i < exchanges; i++) {
		if (first)
			CHECK_EQUAL(av_cq_push(&fake.seg, theirs, &plain, NULL), 0);
		spin_a_while(&seed);
		av_cq_arm(&fake.seg, mine, AV_CQ_ARMED_ANY);
		spin_a_while(&seed);
		CHECK_EQUAL(av_cq_wait(&fake.seg, mine, av_now_ns() + LONG_NS), 0);
		CHECK(tail_of(own) != atomic_load(&own->head)); /* not for nothing */
		atomic_store(&own->head, tail_of(own));
		if (!first)
			CHECK_EQUAL(av_cq_push(&fake.seg, theirs, &plain, NULL), 0);
	}
}

static bool everybody_lives(uint32_t owner)
{
	return true;
}

TEST_WITH(no_wake_up_is_lost_between_processes, set_up, tear_down)
{
	pid_t pid;
	int status;

	av_notify_nap_ns = 10 * LONG_NS;
	av_lock_owner_alive = everybody_lives;
	set_up_cq(2);
	pid = fork();
	if (pid == 0) {
		be_peer();
		exchange(2, INDEX, false, 2);
		_exit(0);
	}
	assert_true(pid > 0);
	exchange(INDEX, 2, true, 1);
	assert_true(waitpid(pid, &status, 0) == pid && status == 0);
	av_notify_nap_ns = NAP_NS;
}

/* --- each way of waiting has a process of its own: it is chosen once ------------- */

static int run(const char *way)
{
	return run_cases(NULL, NULL);
}

static bool passes(const char *way)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("ANYVERBS_AS_NOTIFY", way, 1);
		exit(run(way));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* usage: test_notify [EXCHANGES] */
int main(int argc, char **argv)
{
	bool ok;

	if (argc > 1)
		exchanges = (unsigned int)atoi(argv[1]);
	ok = passes("futex");

	for (const struct av_hw_wait *w = av_hw_waits; w->name; w++)
		if (w->available())
			ok = passes(w->name) && ok;
	return ok ? 0 : 1;
}
