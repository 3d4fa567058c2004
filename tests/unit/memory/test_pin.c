/* SPDX-License-Identifier: MIT */
/*
 * Pins of keys: who gets a word, who waits for it, and what becomes of it when its process dies.
 * And that a key which has been drained is in nobody's use, whatever threads and processes do.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/lock.h"
#include "lib/far_stores.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "lib/wanted_core.h"
#include "memory/key.h"
#include "registry/directory.h"
#include "unit/memory/seg_fixture.h"

#define KEY	  0x507u
#define OTHER_KEY 0x508u
#define NOBODY	  0x7ffffffu /* identity of no process */
#define LOOK_MS	  50
#define NEEDED	  (2 * AV_MAX_SGE + AV_KLM_PINS) /* by one request at the same time */

static uint64_t word(uint32_t proc, uint32_t key)
{
	return (uint64_t)proc << 32 | key;
}

static uint64_t word_at(unsigned int place)
{
	return atomic_load(&fake.seg.head->pin[place].word);
}

static void occupy(unsigned int count, uint64_t with)
{
	for (unsigned int i = 0; i < count; i++)
		atomic_store(&fake.seg.head->pin[i].word, with);
}

static void expect_all(uint64_t all)
{
	for (unsigned int i = 0; i < AV_PINS; i++)
		assert_int_equal(word_at(i), all);
}

/* --- claiming -------------------------------------------------------------------- */

TEST_WITH(a_word_names_process_and_key_until_it_is_given_back, open_fake, close_fake)
{
	for (int i = 0; i < 3; i++) {
		struct av_pin *pin = av_pin_begin(&fake.seg, KEY);

		assert_non_null(pin);
		assert_int_equal(atomic_load(&pin->word), word(av_lock_self, KEY));
		av_pin_end(pin);
		expect_all(0);
	}
}

TEST_WITH(a_thread_has_the_same_one_each_time, open_fake, close_fake)
{
	struct av_pin *first = av_pin_begin(&fake.seg, KEY);

	av_pin_end(first);
	for (int i = 0; i < 3; i++) {
		struct av_pin *pin = av_pin_begin(&fake.seg, OTHER_KEY);

		assert_ptr_equal(pin, first);
		av_pin_end(pin);
	}
}

TEST_WITH(one_key_pinned_twice_is_two_words, open_fake, close_fake)
{
	struct av_pin *one = av_pin_begin(&fake.seg, KEY), *two = av_pin_begin(&fake.seg, KEY);

	assert_ptr_not_equal(one, two);
	av_pin_end(one);
	assert_int_equal(atomic_load(&two->word), word(av_lock_self, KEY));
	av_pin_end(two);
}

TEST_WITH(each_segment_has_its_own, open_fake, close_fake)
{
	struct av_pin *here = av_pin_begin(&fake.seg, KEY), *there;
	struct fake_seg other;

	fake_open(&other, 2);
	there = av_pin_begin(&other.seg, KEY);
	assert_true(there >= other.seg.head->pin && there < other.seg.head->pin + AV_PINS);
	assert_true(here >= fake.seg.head->pin && here < fake.seg.head->pin + AV_PINS);
	fake_close(&other);
}

static void *pin_and_end(void *arg)
{
	struct av_pin *pin = av_pin_begin(&fake.seg, KEY);

	CHECK(pin);
	av_pin_end(pin);
	return pin;
}

TEST_WITH(threads_begin_apart, open_fake, close_fake)
{
	struct av_pin *own = pin_and_end(NULL);
	pthread_t thread;
	void *others;

	assert_int_equal(pthread_create(&thread, NULL, pin_and_end, NULL), 0);
	assert_int_equal(pthread_join(thread, &others), 0);
	assert_ptr_not_equal(others, own);
}

/* --- words run out --------------------------------------------------------------- */

TEST_WITH(the_largest_request_finds_enough, open_fake, close_fake)
{
	struct av_pin *pin[NEEDED];

	for (unsigned int i = 0; i < NEEDED; i++) {
		pin[i] = av_pin_begin(&fake.seg, KEY);
		if (!pin[i])
			fail_msg("%u words", i);
	}
	for (unsigned int i = 0; i < NEEDED; i++)
		av_pin_end(pin[i]);
	expect_all(0);
}

TEST_WITH(the_last_one_is_found_wherever_it_is, open_fake, close_fake)
{
	for (unsigned int i = 0; i < AV_PINS; i++) {
		occupy(AV_PINS, word(av_lock_self, OTHER_KEY));
		atomic_store(&fake.seg.head->pin[i].word, 0);
		assert_ptr_equal(av_pin_begin(&fake.seg, KEY), &fake.seg.head->pin[i]);
		assert_null(av_pin_begin(&fake.seg, KEY));
	}
}

/* The own place, too, which was looked at before. */
TEST_WITH(the_only_one_of_the_dead_is_found_wherever_it_is, open_fake, close_fake)
{
	for (unsigned int i = 0; i < AV_PINS; i++) {
		occupy(AV_PINS, word(av_lock_self, OTHER_KEY));
		atomic_store(&fake.seg.head->pin[i].word, word(NOBODY, OTHER_KEY));
		assert_ptr_equal(av_pin_begin(&fake.seg, KEY), &fake.seg.head->pin[i]);
	}
}

TEST_WITH(none_left_is_an_answer, open_fake, close_fake)
{
	occupy(AV_PINS, word(av_lock_self, OTHER_KEY));
	assert_null(av_pin_begin(&fake.seg, KEY));
	expect_all(word(av_lock_self, OTHER_KEY));
}

#define CLAIMERS 4
#define FREE	 3 /* words for them */
#define CLAIMS	 (SANITIZED ? 5000u : 50000u)

static _Atomic uint32_t claimed[AV_PINS];

static void *claim(void *arg)
{
	uint32_t *got = arg;

	/* The others may have lost their cores with all of the words. */
	for (uint32_t i = 0; i < CLAIMS || *got == 0; i++) {
		struct av_pin *pin = av_pin_begin(&fake.seg, KEY);

		if (!pin)
			continue;
		CHECK(atomic_exchange(&claimed[pin - fake.seg.head->pin], 1) == 0);
		*got += 1;
		atomic_store(&claimed[pin - fake.seg.head->pin], 0);
		av_pin_end(pin);
	}
	return NULL;
}

TEST_WITH(a_word_is_one_threads_at_a_time, open_fake, close_fake)
{
	pthread_t thread[CLAIMERS];
	uint32_t got[CLAIMERS] = {0};

	occupy(AV_PINS - FREE, word(av_lock_self, OTHER_KEY));
	for (int i = 0; i < CLAIMERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, claim, &got[i]), 0);
	for (int i = 0; i < CLAIMERS; i++) {
		pthread_join(thread[i], NULL);
		assert_true(got[i] > 0);
	}
	for (unsigned int i = AV_PINS - FREE; i < AV_PINS; i++)
		assert_int_equal(word_at(i), 0);
}

/* --- processes that died --------------------------------------------------------- */

TEST_WITH(words_of_the_dead_are_taken, open_fake, close_fake)
{
	occupy(AV_PINS, word(NOBODY, KEY));
	assert_non_null(av_pin_begin(&fake.seg, KEY));
}

TEST_WITH(those_of_the_living_are_left_when_the_deads_are_taken, open_fake, close_fake)
{
	occupy(AV_PINS, word(NOBODY, KEY));
	occupy(AV_PINS / 2, word(av_lock_self, KEY));
	for (unsigned int i = 0; i < AV_PINS / 2; i++) {
		struct av_pin *pin = av_pin_begin(&fake.seg, OTHER_KEY);

		assert_true(pin >= fake.seg.head->pin + AV_PINS / 2);
		assert_int_equal(atomic_load(&pin->word), word(av_lock_self, OTHER_KEY));
	}
	assert_null(av_pin_begin(&fake.seg, OTHER_KEY));
	for (unsigned int i = 0; i < AV_PINS / 2; i++)
		assert_int_equal(word_at(i), word(av_lock_self, KEY));
}

static bool any(struct av_seg *seg, uint32_t key, const void *arg)
{
	return true;
}

/* As one does who cannot do without. */
static void drain_any(void)
{
	uint64_t until;

	do
		until = 0;
	while (!av_pin_drain_chosen(&fake.seg, any, NULL, &until));
}

TEST_WITH(the_dead_are_not_waited_for, open_fake, close_fake)
{
	occupy(AV_PINS, word(NOBODY, KEY));
	occupy(AV_PINS / 2, word(NOBODY, OTHER_KEY));
	av_pin_drain(&fake.seg, KEY);
	for (unsigned int i = 0; i < AV_PINS; i++)
		assert_int_equal(word_at(i), i < AV_PINS / 2 ? word(NOBODY, OTHER_KEY) : 0);
	drain_any();
	expect_all(0);
}

/* A process with an identity of its own, in which @run is called. */
static pid_t child(void (*run)(void))
{
	pid_t pid = fork();

	if (pid != 0) {
		CHECK(pid > 0);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody running */
	CHECK(av_dir_join(NULL) == 0);
	run();
	_exit(0);
}

static void bury(pid_t pid)
{
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static void take_all_and_stay(void)
{
	for (unsigned int i = 0; i < AV_PINS; i++) /* no more: the test may free them then */
		CHECK(av_pin_begin(&fake.seg, KEY));
	for (;;)
		pause();
}

static bool all_are_taken(void)
{
	for (unsigned int i = 0; i < AV_PINS; i++)
		if (!word_at(i))
			return false;
	return true;
}

/* By whoever needs one, and by whoever waits for them. */
TEST_WITH(a_killed_process_gives_its_words_back, open_fake, close_fake)
{
	for (int waits = 0; waits < 2; waits++) {
		pid_t pid = child(take_all_and_stay);

		assert_true(WAIT_UNTIL(all_are_taken(), 60000));
		assert_null(av_pin_begin(&fake.seg, KEY));
		bury(pid);
		if (waits)
			av_pin_drain(&fake.seg, KEY);
		else
			av_pin_end(av_pin_begin(&fake.seg, KEY));
		expect_all(0);
	}
}

TEST_WITH(it_is_held_whichever_word_says_so, open_fake, close_fake)
{
	for (unsigned int i = 0; i < AV_PINS; i++) {
		atomic_store(&fake.seg.head->pin[i].word, word(av_lock_self, KEY));
		assert_true(av_pin_is_held(&fake.seg, KEY));
		assert_false(av_pin_is_held(&fake.seg, OTHER_KEY));
		atomic_store(&fake.seg.head->pin[i].word, word(NOBODY, KEY));
		assert_false(av_pin_is_held(&fake.seg, KEY));
	}
}

/*
 * Who can do without gives up, unless it is the caller's own process: after the same time for all
 * words together, even where others want the core.
 */
TEST_WITH(the_living_are_waited_for_a_while, open_fake, close_fake)
{
	pid_t pid = child(take_all_and_stay);
	uint64_t begin;

	assert_true(WAIT_UNTIL(all_are_taken(), 60000));
	assert_true(av_pin_try_drain(&fake.seg, OTHER_KEY));
	assert_false(av_pin_is_held(&fake.seg, OTHER_KEY));
	begin = wait_clock_ms();
	want_core(true);
	assert_false(av_pin_try_drain(&fake.seg, KEY));
	assert_true(atomic_load(&yields) > 0 && atomic_load(&yields) < ENOUGH_YIELDS);
	want_core(false);
	assert_true(wait_clock_ms() - begin >= AV_STOPPED_NS / 2000000);
	assert_true(av_pin_is_held(&fake.seg, KEY));
	bury(pid);
	assert_false(av_pin_is_held(&fake.seg, KEY));
	assert_true(av_pin_try_drain(&fake.seg, KEY));
	expect_all(0);
}

static unsigned int looks_left;

/* The user of the first word goes on at the last look at it. */
static bool ends_in_time(struct av_seg *seg, uint32_t key, const void *arg)
{
	if (--looks_left == 0)
		atomic_store(&seg->head->pin[0].word, 0);
	return true;
}

/* Who waits for a core is waited for until the caller's time is over, and who is stopped is not. */
TEST_WITH(only_the_stopped_are_given_up, open_fake, close_fake)
{
	static const uint64_t past = 1, never = UINT64_MAX;
	const struct {
		bool stopped;
		unsigned int looks; /* two in each turn of AV_STOPPED_NS */
		uint64_t until;
		bool drained;
	} rows[] = {{false, 1, never, true}, {true, 1, never, true},  {false, 3, never, true},
		    {false, 7, never, true}, {true, 3, never, false}, {true, 7, never, false},
		    {false, 1, past, true},  {false, 3, past, false}, {true, 3, past, false}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		pid_t pid = child(take_all_and_stay);
		uint64_t until = rows[i].until, taken;

		assert_true(WAIT_UNTIL(all_are_taken(), 60000));
		if (rows[i].stopped)
			assert_true(kill(pid, SIGSTOP) == 0 &&
				    waitpid(pid, NULL, WUNTRACED) == pid);
		taken = word_at(0);
		occupy(AV_PINS, 0);
		atomic_store(&fake.seg.head->pin[0].word, taken);
		looks_left = rows[i].looks;
		if (av_pin_drain_chosen(&fake.seg, ends_in_time, NULL, &until) != rows[i].drained)
			fail_msg("row %zu", i);
		bury(pid);
	}
}

/* --- waiting --------------------------------------------------------------------- */

static _Atomic bool drained;

static void *drain_key(void *arg)
{
	av_pin_drain(&fake.seg, KEY);
	atomic_store(&drained, true);
	return NULL;
}

static void *drain_all(void *arg)
{
	drain_any();
	atomic_store(&drained, true);
	return NULL;
}

static const struct {
	const char *name;
	void *(*who)(void *arg);
	uint32_t key; /* that is in use; 0: none is */
	bool waits;
} waits[] = {
	{"for the key, in use", drain_key, KEY, true},
	{"for the key, another one in use", drain_key, OTHER_KEY, false},
	{"for the key, nothing in use", drain_key, 0, false},
	{"for all, one in use", drain_all, KEY, true},
	{"for all, another one in use", drain_all, OTHER_KEY, true},
	{"for all, nothing in use", drain_all, 0, false},
};

/* Each word by itself. */
TEST_WITH(waiting, open_fake, close_fake)
{
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(waits); i++) {
		struct av_pin *pin =
			&fake.seg.head->pin[i * 51]; /* the first and the last among them */
		pthread_t thread;

		atomic_store(&drained, false);
		if (waits[i].key)
			atomic_store(&pin->word, word(av_lock_self, waits[i].key));
		CHECK(pthread_create(&thread, NULL, waits[i].who, NULL) == 0);
		if (waits[i].waits) {
			if (WAIT_UNTIL(atomic_load(&drained), LOOK_MS))
				fail_msg("%s: did not wait", waits[i].name);
			av_pin_end(pin);
		}
		pthread_join(thread, NULL); /* a hang is the test's time limit */
		av_pin_end(pin);
	}
}

/* --- a drained key is not in use ------------------------------------------------- */

/*
 * A key is withdrawn, and found so by whoever pins it from then on: nobody uses it once it is
 * drained.
 */
static struct race {
	_Atomic uint32_t living AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t freed AV_ALIGNED(AV_CACHE_LINE); /* who uses the key does not see it set */
	_Atomic uint32_t uses AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t users, wrong;
	_Atomic bool stop;
} * race;

static void use_once(void)
{
	struct av_pin *pin = av_pin_begin(&fake.seg, KEY);

	CHECK(pin);
	if (atomic_load_explicit(&race->living, memory_order_relaxed) == KEY) {
		for (int i = 0; i < 40; i++) {
			av_pause();
			if (atomic_load_explicit(&race->freed, memory_order_relaxed))
				atomic_store_explicit(&race->wrong, 1, memory_order_relaxed);
		}
		atomic_fetch_add_explicit(&race->uses, 1, memory_order_relaxed);
	}
	av_pin_end(pin);
}

/* Its word is the first that it tries, and among the first that who waits looks at. */
static void use_again_and_again(void)
{
	av_pin_place = AV_PINS + atomic_fetch_add(&race->users, 1);
	for (uint32_t n = 0; !atomic_load_explicit(&race->stop, memory_order_relaxed); n++) {
		store_far_away();
		use_once();
		if (n % 64 == 63)
			wait_moment(); /* who loses its core rather does so here */
	}
}

static void *user_thread(void *arg)
{
	use_again_and_again();
	return NULL;
}

static void live_and_die(uint32_t n)
{
	uint32_t before = atomic_load(&race->uses);

	atomic_store(&race->freed, 0);
	atomic_store(&race->living, KEY);
	for (uint32_t looks = 0; looks < 1000 && atomic_load(&race->uses) == before; looks++)
		looks % 64 == 63 ? (void)sched_yield() : av_pause();
	for (uint32_t i = n % 64; i > 0; i--)
		av_pause();
	store_far_away();
	atomic_store_explicit(&race->living, 0, memory_order_relaxed);
	n % 8 ? av_pin_drain(&fake.seg, KEY) : drain_any();
	atomic_store(&race->freed, 1);
}

#define USERS_MAX 3
#define ROUNDS	  (SANITIZED ? 500u : 5000u)
/* Where users have to share cores, and lose them while they use the key: so many, so long. */
#define ROUNDS_MIN 20u
#define ROUNDS_MS  3000u
#define BEGIN_MS   60000u /* within which some user has begun */

static bool goes_on(uint32_t n, uint64_t begin_ms)
{
	uint64_t ms = wait_clock_ms() - begin_ms;

	return n <= ROUNDS_MIN || (n <= ROUNDS && ms < ROUNDS_MS) ||
	       (atomic_load(&race->uses) == 0 && ms < BEGIN_MS);
}

static const struct {
	unsigned int threads, processes;
	uint32_t kill; /* every so many rounds a process is killed, and another begins; 0: none */
} casts[] = {{1, 0, 0}, {3, 0, 0}, {0, 1, 0}, {0, 3, 0}, {2, 2, 0}, {1, 2, 10}};

TEST_WITH(a_drained_key_is_not_in_use, open_fake, close_fake)
{
	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(race != MAP_FAILED);
	for (size_t i = 0; i < AV_ARRAY_SIZE(casts); i++) {
		uint64_t begin_ms = wait_clock_ms();
		pthread_t thread[USERS_MAX];
		pid_t pid[USERS_MAX];

		if (UNDER_TSAN && casts[i].kill)
			continue; /* it forks beside threads */
		memset(race, 0, sizeof(*race));
		for (unsigned int k = 0; k < casts[i].processes; k++)
			pid[k] = child(use_again_and_again);
		for (unsigned int k = 0; k < casts[i].threads; k++)
			CHECK(pthread_create(&thread[k], NULL, user_thread, NULL) == 0);
		for (uint32_t n = 1; goes_on(n, begin_ms); n++) {
			live_and_die(n);
			if (casts[i].kill && n % casts[i].kill == 0) {
				bury(pid[0]); /* wherever it is */
				pid[0] = child(use_again_and_again);
			}
		}
		atomic_store(&race->stop, true);
		for (unsigned int k = 0; k < casts[i].threads; k++)
			pthread_join(thread[k], NULL);
		for (unsigned int k = 0; k < casts[i].processes; k++) {
			int status;

			CHECK(waitpid(pid[k], &status, 0) == pid[k] && status == 0);
		}
		assert_true(atomic_load(&race->uses) > 0);
		if (atomic_load(&race->wrong))
			fail_msg("%u threads, %u processes: used when freed", casts[i].threads,
				 casts[i].processes);
		drain_any();
		expect_all(0);
	}
	munmap(race, sizeof(*race));
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
