/* SPDX-License-Identifier: MIT */
/* The barrier whose price one side pays: "store mine, look at yours" on both sides, and one sees
 * the other.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/barrier.h"
#include "base/compiler.h"
#include "lib/check.h"
#include "lib/refuse_call.h"

#define SEEN_NS 20000000 /* what a heavy barrier takes at least where the kernel refuses it */

static struct both {
	_Atomic uint32_t of_light AV_ALIGNED(AV_CACHE_LINE); /* stored: the number of the round */
	_Atomic uint32_t of_heavy AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t round AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t done AV_ALIGNED(AV_CACHE_LINE);
	uint32_t saw; /* by the light side, in that round */
} * both;

static uint32_t rounds;
static bool (*heavy_barrier)(void);

static int setup(void **state)
{
	both = mmap(NULL, sizeof(*both), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	av_barrier_join();
	return both == MAP_FAILED;
}

static void wait_for(_Atomic uint32_t *word, uint32_t value)
{
	for (uint32_t looks = 1; atomic_load(word) != value; looks++)
		if (looks % 1024 == 0)
			sched_yield();
}

/* Some moments earlier or later than the other, about as long as a line takes from core to core. */
static void some_moments(uint32_t n)
{
	for (uint32_t i = n % 1024; i > 0; i--)
		atomic_signal_fence(memory_order_seq_cst);
}

static void light_side(void)
{
	for (uint32_t r = 1; r <= rounds; r++) {
		(void)atomic_load(&both->of_heavy); /* it is near */
		wait_for(&both->round, r);
		atomic_store_explicit(&both->of_light, r, memory_order_relaxed);
		av_barrier_light();
		both->saw = atomic_load_explicit(&both->of_heavy, memory_order_relaxed);
		atomic_store(&both->done, r);
	}
}

static void heavy_side(void)
{
	for (uint32_t r = 1; r <= rounds; r++) {
		uint32_t saw;

		(void)atomic_load(&both->of_light);
		atomic_store(&both->round, r);
		some_moments(r * 37);
		atomic_store_explicit(&both->of_heavy, r, memory_order_relaxed);
		(void)heavy_barrier();
		saw = atomic_load_explicit(&both->of_light, memory_order_relaxed);
		wait_for(&both->done, r);
		CHECK(saw == r || both->saw == r);
	}
}

static void *light_thread(void *arg)
{
	light_side();
	return NULL;
}

static void between_threads(void **state)
{
	pthread_t thread;

	rounds = 20000;
	heavy_barrier = av_barrier_heavy_own;
	CHECK(pthread_create(&thread, NULL, light_thread, NULL) == 0);
	heavy_side();
	pthread_join(thread, NULL);
}

/* --- processes, of which some may not make it ------------------------------------ */

static const struct {
	const char *name;
	int light, heavy; /* what membarrier(2) fails with; 0: it does not */
	uint32_t rounds;
} processes[] = {
	{"both may", 0, 0, 2000},
	{"the light side may not, EPERM", EPERM, 0, 2000},
	{"the light side may not, ENOSYS", ENOSYS, 0, 2000},
	{"the heavy side may not, EPERM", 0, EPERM, 40},
	{"the heavy side may not, ENOSYS", 0, ENOSYS, 40},
	{"neither may", EPERM, EPERM, 40},
};

static pid_t child(int refusal, void (*side)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (refusal && !refuse_call(SYS_membarrier, (uint32_t)refusal))
			_exit(77);
		av_barrier_join();
		CHECK(av_barrier_is_light == !refusal);
		side();
		_exit(0);
	}
	CHECK(pid > 0);
	return pid;
}

static void between_processes(void **state)
{
	for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++) {
		int light_status, heavy_status;

		heavy_barrier = av_barrier_heavy;
		pid_t light, heavy;

		assert_int_equal(setup(state), 0);
		rounds = processes[i].rounds;
		light = child(processes[i].light, light_side);
		heavy = child(processes[i].heavy, heavy_side);
		CHECK(waitpid(light, &light_status, 0) == light &&
		      waitpid(heavy, &heavy_status, 0) == heavy);
		if (light_status || heavy_status)
			fail_msg("%s: %x, %x", processes[i].name, light_status, heavy_status);
	}
}

/* Nothing cuts it short. */
static void nothing(int signal)
{
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void wait_among_signals(void)
{
	const struct itimerval often = {{.tv_usec = 1000}, {.tv_usec = 1000}};
	struct sigaction act = {.sa_handler = nothing};
	uint64_t begin;

	CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
	begin = now_ns();
	(void)av_barrier_heavy();
	CHECK(now_ns() - begin >= SEEN_NS);
}

/* By a process that has locked itself in since it joined; it may not sleep, either. */
static void wait_locked_in(void)
{
	bool (*const barrier[])(void) = {av_barrier_heavy_own, av_barrier_heavy};

	CHECK(barrier[0]() && barrier[1]());
	for (int i = 0; i < 2; i++) {
		uint64_t begin;

		if (!refuse_call(i ? SYS_clock_nanosleep : SYS_membarrier, EPERM))
			_exit(77);
		for (int n = 0; n < 2; n++) {
			begin = now_ns();
			CHECK(!barrier[n]());
			CHECK(now_ns() - begin >= SEEN_NS);
		}
	}
}

static void refused_later(void **state)
{
	int status;
	pid_t pid = child(0, wait_locked_in);

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void refused_and_interrupted(void **state)
{
	int status;
	pid_t pid = child(EPERM, wait_among_signals);

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(between_threads, setup),
		cmocka_unit_test_setup(between_processes, setup),
		cmocka_unit_test_setup(refused_and_interrupted, setup),
		cmocka_unit_test_setup(refused_later, setup),
	};

	av_barrier_join();
	if (!av_barrier_is_light)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
