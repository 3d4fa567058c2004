/* SPDX-License-Identifier: MIT */
/* Pin words that threads keep: who gets one, who waits for it, and what becomes of it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lock.h"
#include "fake_seg.h"
#include "registry/directory.h"
#include "base/limits.h"
#include "lib/refuse_call.h"
#include "memory/pin.h"
#include "memory/klm_iter.h"
#include "lib/own_directory.h"

#define KEY	  0x507u
#define OTHER_KEY 0x508u
#define NOBODY	  0x7ffffffu /* identity of no process */
#define KEPT	  (AV_PINS / 2)
#define NEEDED	  (2 * AV_MAX_SGE + AV_RUN_HOLDS) /* by one request at the same time */
#define LOOK_NS	  50000000l

static struct fake_seg f;

static int setup(void **state)
{
	fake_open(&f, 1);
	return 0;
}

static int teardown(void **state)
{
	fake_close(&f);
	return 0;
}

static struct av_pin *kept(enum av_pin_use use)
{
	return av_pin_kept(&f.seg, use);
}

static uint64_t word(uint32_t proc, uint32_t key)
{
	return (uint64_t)proc << 32 | key;
}

static void occupy(unsigned int count, uint64_t with)
{
	for (unsigned int i = 0; i < count; i++)
		atomic_store(&f.seg.head->pin[i].word, with);
}

/* --- who gets which -------------------------------------------------------------- */

static void a_thread_keeps_one_for_each_use(void **state)
{
	struct av_pin *local = kept(AV_PIN_LOCAL), *remote = kept(AV_PIN_REMOTE);

	assert_non_null(local);
	assert_non_null(remote);
	assert_ptr_not_equal(local, remote);
	assert_ptr_equal(kept(AV_PIN_LOCAL), local);
	assert_ptr_equal(kept(AV_PIN_REMOTE), remote);
	assert_int_equal(atomic_load(&local->word), word(av_lock_self, 0));
}

static void announcing_and_resting(void **state)
{
	struct av_pin *h = kept(AV_PIN_LOCAL);

	av_pin_announce(h, KEY);
	assert_int_equal(atomic_load(&h->word), word(av_lock_self, KEY));
	av_pin_rest(h);
	assert_int_equal(atomic_load(&h->word), word(av_lock_self, 0));
	assert_ptr_equal(kept(AV_PIN_LOCAL), h);
}

static void each_segment_has_its_own(void **state)
{
	struct av_pin *h = kept(AV_PIN_LOCAL), *there;
	struct fake_seg other;

	fake_open(&other, 2);
	there = av_pin_kept(&other.seg, AV_PIN_LOCAL);
	assert_true(there >= other.seg.head->pin && there < other.seg.head->pin + AV_PINS);
	assert_true(h >= f.seg.head->pin && h < f.seg.head->pin + AV_PINS);
	fake_close(&other);
}

static void *keep_one(void *arg)
{
	return kept(AV_PIN_LOCAL);
}

static struct av_pin *in_a_thread(void)
{
	pthread_t thread;
	void *h;

	CHECK(pthread_create(&thread, NULL, keep_one, NULL) == 0 && pthread_join(thread, &h) == 0);
	return h;
}

static void the_place_of_a_thread_that_ended_is_taken_over(void **state)
{
	struct av_pin *own = kept(AV_PIN_LOCAL), *first = in_a_thread();

	assert_non_null(first);
	assert_ptr_not_equal(first, own);
	for (int i = 0; i < 3 * AV_PIN_THREADS; i++)
		assert_ptr_equal(in_a_thread(), first);
	assert_int_equal(atomic_load(&first->word), word(av_lock_self, 0));
}

/* --- more threads than places ---------------------------------------------------- */

#define THREADS (AV_PIN_THREADS + 4)

static pthread_barrier_t all_have, all_seen;
static struct av_pin *has[THREADS];

static void *keep_until_seen(void *arg)
{
	struct av_pin **mine = arg, *begun;

	*mine = kept(AV_PIN_LOCAL);
	if (!*mine) {
		begun = av_pin_begin(&f.seg, KEY); /* serves instead */
		CHECK(begun && atomic_load(&begun->word) == word(av_lock_self, KEY));
		av_pin_end(begun);
	}
	pthread_barrier_wait(&all_have);
	pthread_barrier_wait(&all_seen);
	return NULL;
}

static void start_all(pthread_t *threads)
{
	pthread_barrier_init(&all_have, NULL, THREADS + 1);
	pthread_barrier_init(&all_seen, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, keep_until_seen, &has[i]) == 0);
	pthread_barrier_wait(&all_have);
}

static void end_all(pthread_t *threads)
{
	pthread_barrier_wait(&all_seen);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&all_have);
	pthread_barrier_destroy(&all_seen);
}

static void more_threads_than_places(void **state)
{
	struct av_pin *own = kept(AV_PIN_LOCAL);
	pthread_t threads[THREADS];
	int keepers = 0;

	start_all(threads);
	for (int i = 0; i < THREADS; i++) {
		keepers += has[i] != NULL;
		assert_ptr_not_equal(has[i], own);
		for (int k = 0; k < i; k++)
			assert_true(!has[i] || has[i] != has[k]);
	}
	assert_int_equal(keepers, AV_PIN_THREADS - 1); /* this one has a place, too */
	end_all(threads);
	assert_non_null(in_a_thread());
}

/* --- words run out --------------------------------------------------------------- */

static void most_words_may_be_kept(void **state)
{
	occupy(KEPT - 1, word(av_lock_self, 0));
	assert_ptr_equal(kept(AV_PIN_LOCAL), &f.seg.head->pin[KEPT - 1]);
	assert_null(kept(AV_PIN_REMOTE));
	assert_null(kept(AV_PIN_REMOTE));
	assert_ptr_equal(kept(AV_PIN_LOCAL), &f.seg.head->pin[KEPT - 1]);
}

static void the_largest_request_finds_enough_that_are_not_kept(void **state)
{
	struct av_pin *h[NEEDED];

	occupy(KEPT, word(av_lock_self, 0));
	while (kept(AV_PIN_LOCAL))
		fail_msg("one too many is kept");
	for (unsigned int i = 0; i < NEEDED; i++) {
		h[i] = av_pin_begin(&f.seg, KEY);
		if (!h[i])
			fail_msg("%u words", i);
		for (unsigned int k = 0; k < i; k++)
			assert_ptr_not_equal(h[i], h[k]);
	}
	for (unsigned int i = 0; i < NEEDED; i++)
		av_pin_end(h[i]);
}

static void none_at_all_is_an_answer(void **state)
{
	occupy(AV_PINS, word(av_lock_self, 0));
	assert_null(kept(AV_PIN_LOCAL));
	assert_null(av_pin_begin(&f.seg, KEY));
	atomic_store(&f.seg.head->pin[200].word, 0);
	assert_ptr_equal(av_pin_begin(&f.seg, KEY), &f.seg.head->pin[200]);
}

/* --- processes that died --------------------------------------------------------- */

static void words_of_the_dead_are_taken(void **state)
{
	static const uint32_t keys[] = {0, KEY};

	for (int i = 0; i < 2; i++) {
		struct av_pin *h;

		teardown(state);
		setup(state);
		occupy(AV_PINS, word(NOBODY, keys[i]));
		h = kept(AV_PIN_LOCAL);
		assert_non_null(h);
		assert_int_equal(atomic_load(&h->word), word(av_lock_self, 0));
		assert_non_null(av_pin_begin(&f.seg, KEY));
	}
}

static void the_dead_are_not_waited_for(void **state)
{
	occupy(AV_PINS, word(NOBODY, KEY));
	av_pin_drain(&f.seg, KEY);
	for (int i = 0; i < AV_PINS; i++)
		assert_int_equal(atomic_load(&f.seg.head->pin[i].word), 0);
	occupy(AV_PINS, word(NOBODY, KEY));
	av_pin_drain_all(&f.seg);
	assert_int_equal(atomic_load(&f.seg.head->pin[AV_PINS - 1].word), 0);
}

/* --- waiting --------------------------------------------------------------------- */

static _Atomic bool drained;

static void *drain_key(void *arg)
{
	av_pin_drain(&f.seg, KEY);
	atomic_store(&drained, true);
	return NULL;
}

static void *drain_all(void *arg)
{
	av_pin_drain_all(&f.seg);
	atomic_store(&drained, true);
	return NULL;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* What of a kept word makes whom wait. */
static const struct {
	const char *name;
	void *(*who)(void *arg);
	uint32_t key; /* announced, 0: the word rests */
	bool waits;
} waits[] = {
	{"for the key, announced", drain_key, KEY, true},
	{"for the key, another one announced", drain_key, OTHER_KEY, false},
	{"for the key, nothing announced", drain_key, 0, false},
	{"for all, one announced", drain_all, KEY, true},
	{"for all, nothing announced", drain_all, 0, false},
};

static void waiting(void **state)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		struct av_pin *h = kept(AV_PIN_REMOTE);
		pthread_t thread;

		(void)kept(AV_PIN_LOCAL); /* rests */
		atomic_store(&drained, false);
		av_pin_announce(h, waits[i].key);
		CHECK(pthread_create(&thread, NULL, waits[i].who, NULL) == 0);
		if (waits[i].waits) {
			nap();
			if (atomic_load(&drained))
				fail_msg("%s: did not wait", waits[i].name);
			av_pin_rest(h);
		}
		pthread_join(thread, NULL); /* a hang is the test's time limit */
		av_pin_rest(h);
	}
}

/* --- the barrier of who waits ---------------------------------------------------- */

#define SELDOM 64u /* drains with others about, until users are told to make the barriers */

static uint32_t drains(void)
{
	return atomic_load(&f.seg.drains);
}

/* With no other user's word in the segment there is nobody to make a barrier for. */
static void own_words_need_no_barrier(void **state)
{
	(void)kept(AV_PIN_LOCAL);
	(void)kept(AV_PIN_REMOTE);
	av_pin_drain(&f.seg, KEY);
	av_pin_drain_all(&f.seg);
	assert_int_equal(drains(), 0);
}

static void others_words_need_one(void **state)
{
	struct av_pin *begun;

	(void)kept(AV_PIN_LOCAL);
	(void)in_a_thread();
	av_pin_drain(&f.seg, KEY);
	assert_int_equal(drains(), 1);
	av_pin_drain_all(&f.seg);
	assert_int_equal(drains(), 2);
	teardown(state);
	setup(state);
	begun = av_pin_begin(&f.seg, OTHER_KEY);
	av_pin_drain(&f.seg, KEY);
	assert_int_equal(drains(), 1);
	av_pin_end(begun);
	av_pin_drain(&f.seg, KEY);
	assert_int_equal(drains(), 1);
}

static void users_make_them_where_keys_end_often(void **state)
{
	(void)in_a_thread();
	for (uint32_t n = 1; n <= SELDOM; n++) {
		av_pin_drain(&f.seg, KEY);
		assert_int_equal(drains(), n);
		assert_int_equal(atomic_load(&f.seg.head->fenced), 0);
	}
	av_pin_drain(&f.seg, KEY);
	assert_int_equal(atomic_load(&f.seg.head->fenced), 1);
	assert_true(atomic_load(&f.seg.users_fence));
	for (uint32_t n = 0; n < SELDOM; n++)
		av_pin_drain(&f.seg, KEY);
	assert_int_equal(drains(), SELDOM + 1);
}

/* A process that has locked itself in since it joined: each barrier takes 20 ms, so there is but
 * one more. */
static void twice_where_they_are_refused(void)
{
	CHECK(av_dir_join(NULL) == 0);
	atomic_store(&f.seg.head->pin[KEPT].word, word(av_lock_self, 0)); /* another thread's */
	if (!refuse_call(SYS_membarrier, EPERM))
		_exit(77);
	for (uint32_t n = 0; n < 4; n++) {
		av_pin_drain(&f.seg, KEY);
		CHECK(atomic_load(&f.seg.users_fence) == (n > 0));
	}
	_exit(0);
}

static void users_make_them_where_they_are_refused(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		twice_where_they_are_refused();
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
}

/* --- a drained key is not in use ------------------------------------------------- */

/* A key is killed, and found dead by who announces it from then on: nobody uses it once it is
 * drained. */
static struct race {
	_Atomic uint32_t living AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t freed
		AV_ALIGNED(AV_CACHE_LINE); /* whoever uses the key does not see it set */
	_Atomic uint32_t uses AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t wrong, word; /* index of the pin that is used */
	_Atomic bool stop;
} * race;

/* Stores to lines that are far away: what is stored next is seen by others only after them. */
#define FAR_BYTES (16u << 20)
static void store_far_away(uint8_t *far, uint32_t n)
{
	for (uint32_t i = 0; i < 24; i++)
		*(volatile uint8_t *)&far[((n * 24 + i) * 0x9e3779b1u) % FAR_BYTES] = 1;
}

/* As pollers of the own process do, or as other processes, which take a token in between. */
static void announce(struct av_pin *h, bool light)
{
	if (light) {
		av_pin_announce(h, KEY);
		av_pin_barrier_light(&f.seg);
	} else {
		av_pin_announce_alone(h, KEY);
		av_pin_barrier();
	}
}

static void use_again_and_again(bool light)
{
	struct av_pin *h = kept(AV_PIN_LOCAL);
	uint8_t *far = calloc(1, FAR_BYTES);

	CHECK(h && far);
	atomic_store(&race->word, (uint32_t)(h - f.seg.head->pin));
	for (uint32_t n = 0; !atomic_load_explicit(&race->stop, memory_order_relaxed); n++) {
		store_far_away(far, n);
		announce(h, light);
		if (atomic_load_explicit(&race->living, memory_order_acquire) == KEY) {
			for (int i = 0; i < 40; i++) {
				av_pause();
				if (atomic_load_explicit(&race->freed, memory_order_relaxed))
					atomic_store_explicit(&race->wrong, 1,
							      memory_order_relaxed);
			}
			atomic_fetch_add_explicit(&race->uses, 1, memory_order_relaxed);
		}
		av_pin_rest(h);
	}
	free(far);
}

static void *user_thread(void *arg)
{
	use_again_and_again(true);
	return NULL;
}

static pid_t user_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		CHECK(av_dir_join(NULL) == 0);
		memset(f.seg.kept, 0,
		       sizeof(f.seg.kept)); /* as if it had mapped the segment itself */
		use_again_and_again(false);
		_exit(0); /* its word stays, as that of one who died */
	}
	CHECK(pid > 0);
	return pid;
}

/* As if the context had seen @n keys end. */
static void as_after_drains(uint32_t n)
{
	atomic_store(&f.seg.users_fence, false);
	atomic_store(&f.seg.head->fenced, 0);
	atomic_store(&f.seg.drains, n);
}

static void live_and_die(uint32_t n)
{
	uint32_t before = atomic_load(&race->uses);

	atomic_store(&race->freed, 0);
	atomic_store(&race->living, KEY);
	for (uint32_t looks = 0; looks < 1000 && atomic_load(&race->uses) == before; looks++)
		looks % 64 == 63 ? (void)sched_yield() : av_pause();
	for (uint32_t i = n % 64; i > 0;
	     i--) /* the line is here, so that the user's stores take their time */
		(void)atomic_load(&f.seg.head->pin[atomic_load(&race->word)].word);
	atomic_store_explicit(&race->living, 0, memory_order_relaxed);
	av_pin_drain(&f.seg, KEY);
	atomic_store(&race->freed, 1);
}

static const struct {
	const char *name;
	uint32_t rounds; /* so many, and then it is */
	uint32_t drains; /* as after that many ends of keys */
	bool process;
} ends[] = {
	{"seldom, a thread", 1, 0, false},
	{"a process", UINT32_MAX, 0, true},
	{"often, a thread", UINT32_MAX, 0, false},
	{"just becoming often, a thread", 2, SELDOM, false},
};

static void a_drained_key_is_not_in_use(void **state)
{
	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(race != MAP_FAILED);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		pthread_t thread;
		pid_t pid = 0;
		int status = 0;

		teardown(state);
		setup(state);
		memset(race, 0, sizeof(*race));
		if (ends[i].process)
			pid = user_process();
		else
			CHECK(pthread_create(&thread, NULL, user_thread, NULL) == 0);
		for (uint32_t n = 0; n < (SANITIZED ? 1000 : 10000); n++) {
			if (n % ends[i].rounds == 0)
				as_after_drains(ends[i].drains);
			live_and_die(n);
		}
		atomic_store(&race->stop, true);
		if (ends[i].process)
			CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		else
			pthread_join(thread, NULL);
		if (atomic_load(&race->wrong))
			fail_msg("%s: used when freed", ends[i].name);
	}
}

/* --- fork ------------------------------------------------------------------------ */

/* All places are taken in the parent. In the child, its one thread has a place, and the others' are
 * free. */
static void a_forked_child_has_its_parents_threads_places(void **state)
{
	struct av_pin *own = kept(AV_PIN_LOCAL);
	pthread_t threads[THREADS];
	int status;
	pid_t pid;

	if (UNDER_TSAN)
		skip();
	start_all(threads);
	pid = fork();
	if (pid == 0) {
		fake_open(&f, 2); /* as it opens a context of its own */
		CHECK(kept(AV_PIN_LOCAL) && kept(AV_PIN_REMOTE));
		for (int i = 0; i < 3 * AV_PIN_THREADS; i++)
			CHECK(in_a_thread());
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	assert_int_equal(atomic_load(&own->word), word(av_lock_self, 0));
	end_all(threads);
}

#define ON_A_SEGMENT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_SEGMENT(a_thread_keeps_one_for_each_use),
		ON_A_SEGMENT(announcing_and_resting),
		ON_A_SEGMENT(each_segment_has_its_own),
		ON_A_SEGMENT(the_place_of_a_thread_that_ended_is_taken_over),
		ON_A_SEGMENT(more_threads_than_places),
		ON_A_SEGMENT(most_words_may_be_kept),
		ON_A_SEGMENT(the_largest_request_finds_enough_that_are_not_kept),
		ON_A_SEGMENT(none_at_all_is_an_answer),
		ON_A_SEGMENT(words_of_the_dead_are_taken),
		ON_A_SEGMENT(the_dead_are_not_waited_for),
		ON_A_SEGMENT(waiting),
		ON_A_SEGMENT(own_words_need_no_barrier),
		ON_A_SEGMENT(others_words_need_one),
		ON_A_SEGMENT(users_make_them_where_keys_end_often),
		ON_A_SEGMENT(users_make_them_where_they_are_refused),
		ON_A_SEGMENT(a_drained_key_is_not_in_use),
		ON_A_SEGMENT(a_forked_child_has_its_parents_threads_places),
	};

	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
