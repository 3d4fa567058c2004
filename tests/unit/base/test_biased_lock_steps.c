/* SPDX-License-Identifier: MIT */
/*
 * A thread whose own the lock is, stopped after each single instruction of a turn, while another
 * comes: what races hit once in a million times, each time. That one is the process that traces it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "biased_lock_fixture.h"

#define OWNER	   2u
#define STEPS_MOST 20000u /* of a whole turn, and of one that has to wait for others a little */
#define A_WHILE	   600u
#define B	   8ull /* names that the tracer takes */
#define C	   12ull

static struct arena {
	struct av_biased_lock lock;
	_Atomic uint32_t inside; /* the owner is between taking it and letting it go */
	_Atomic uint32_t ended;	 /* its turn is over */
	_Atomic uint32_t posted[2];
	uint32_t found[2];
} * arena;

/* --- the one who is stopped ------------------------------------------------------ */

static void a_turn(void)
{
	av_biased_acquire_plain(&arena->lock);
	atomic_store_explicit(&arena->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&arena->inside, 0, memory_order_relaxed);
	av_biased_release(&arena->lock);
}

static bool is_news(const uint32_t *view)
{
	return atomic_load_explicit(&arena->posted[0], memory_order_relaxed) != view[0] ||
	       atomic_load_explicit(&arena->posted[1], memory_order_relaxed) != view[1];
}

/* As send queues are driven: transport/drive.c. */
static void post_and_work(uint32_t who)
{
	uint32_t view[2];

	av_publish_before_try(&arena->posted[who],
			      atomic_load_explicit(&arena->posted[who], memory_order_relaxed) + 1);
	do {
		if (av_biased_try(&arena->lock) == AV_LOCK_BUSY)
			return;
		for (int i = 0; i < 2; i++)
			arena->found[i] = view[i] =
				atomic_load_explicit(&arena->posted[i], memory_order_relaxed);
		av_biased_release_fence(&arena->lock);
	} while (is_news(view));
}

static void a_turn_of_work(void)
{
	post_and_work(1);
}

static pid_t start(void (*turn_of)(void))
{
	pid_t pid;
	int status;

	*arena = (struct arena){0};
	atomic_store(&dead[OWNER], false);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		av_lock_self = OWNER;
		av_biased_forked();
		CHECK(turns_to_own(&arena->lock, AV_BIAS_TURNS) == AV_BIAS_TURNS);
		CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0);
		turn_of();
		atomic_store(&arena->ended, 1);
		for (;;)
			pause();
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	return pid;
}

static void step(pid_t pid)
{
	int status;

	CHECK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

static bool has_ended(void)
{
	return atomic_load(&arena->ended);
}

static void to_its_end(pid_t pid)
{
	for (uint32_t n = 0; !has_ended(); n++) {
		CHECK(n < STEPS_MOST);
		step(pid);
	}
}

static void end(pid_t pid)
{
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

/* It goes on while the caller has the lock. */
static void stays_out(pid_t pid)
{
	for (uint32_t n = 0; n < A_WHILE && !has_ended(); n++) {
		assert_int_equal(atomic_load(&arena->inside), 0);
		step(pid);
	}
	assert_int_equal(atomic_load(&arena->inside), 0);
}

/* --- the one who comes ----------------------------------------------------------- */

static void comes(pid_t pid)
{
	if (av_biased_try(&arena->lock) == AV_LOCK_TAKEN) {
		stays_out(pid);
		av_biased_release(&arena->lock);
	}
	to_its_end(pid);
	assert_int_equal(av_biased_try(&arena->lock), AV_LOCK_TAKEN);
	av_biased_release(&arena->lock);
}

/* And stays, so long that the lock would be his own; and then a third one comes. */
static void comes_to_stay(pid_t pid)
{
	av_bias_self = B;
	if (av_biased_try(&arena->lock) == AV_LOCK_TAKEN) {
		av_biased_release(&arena->lock);
		(void)turns_to_own(&arena->lock, AV_BIAS_TURNS * 4);
		assert_int_equal(av_biased_acquire(&arena->lock), AV_LOCK_TAKEN);
		stays_out(pid);
		av_bias_self = C;
		assert_int_equal(av_biased_try(&arena->lock), AV_LOCK_BUSY);
		av_bias_self = B;
		av_biased_release(&arena->lock);
	}
	to_its_end(pid);
}

static void leaves_work(pid_t pid)
{
	post_and_work(0);
	to_its_end(pid);
	assert_int_equal(arena->found[0], atomic_load(&arena->posted[0]));
	assert_int_equal(arena->found[1], atomic_load(&arena->posted[1]));
}

/* After its death; whoever was inside left something to be repaired. */
static void comes_after(pid_t pid)
{
	bool was_inside = atomic_load(&arena->inside);
	enum av_lock_result got;

	end(pid);
	atomic_store(&dead[OWNER], true);
	got = av_biased_acquire(&arena->lock);
	assert_true(got == AV_LOCK_REPAIR || !was_inside);
	av_biased_release(&arena->lock);
	assert_int_equal(av_biased_acquire(&arena->lock), AV_LOCK_TAKEN);
}

static const struct {
	const char *name;
	void (*turn_of)(void);
	void (*other)(pid_t pid);
	bool dies;
} meetings[] = {
	{"another comes", a_turn, comes, false},
	{"another comes to stay", a_turn, comes_to_stay, false},
	{"another leaves work", a_turn_of_work, leaves_work, false},
	{"it dies", a_turn, comes_after, true},
};

/* Return: did its turn last for so many instructions? */
static bool stopped_after(uint32_t steps, size_t meeting)
{
	pid_t pid = start(meetings[meeting].turn_of);
	bool lasts;

	for (uint32_t n = 0; n < steps && !has_ended(); n++)
		step(pid);
	lasts = !has_ended();
	meetings[meeting].other(pid);
	if (!meetings[meeting].dies)
		end(pid);
	return lasts;
}

static void stopped_anywhere(void **state)
{
	for (size_t i = 0; i < sizeof(meetings) / sizeof(meetings[0]); i++) {
		uint32_t steps = 0;

		print_message("%s\n", meetings[i].name);
		while (stopped_after(steps, i))
			steps++;
		assert_true(steps > 10);
	}
}

static int setup(void **state)
{
	arena = shared_memory(sizeof(*arena));
	return fixture_setup(state);
}

static bool can_trace(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(stopped_anywhere, setup),
	};

	/* Of a checker's instructions there are too many. */
	if (SANITIZED || fixture_setup(NULL) || !can_trace())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
