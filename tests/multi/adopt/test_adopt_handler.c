/* SPDX-License-Identifier: MIT */
/*
 * A signal's handler calls fork() while its thread registers and deregisters adopted memory. Nobody
 * waits for a lock that the interrupted call holds, and the child has memory of its own.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"

#define FORKS	  50u
#define PERIOD_US 2000

static uint8_t *memory;
static volatile sig_atomic_t forks, wrong;

static void on_tick(int sig)
{
	int status = -1;
	pid_t child;

	if (forks >= (int)FORKS)
		return;
	child = fork();
	if (child == 0) {
		memset(memory, 0xee, BYTES);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		wrong++;
	forks++;
}

static void tick(suseconds_t period_us)
{
	const struct itimerval every = {{0, period_us}, {0, period_us}};

	setitimer(ITIMER_PROF, &every, NULL);
}

static void run(void)
{
	struct sigaction act = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, before;
	uint64_t until = now_ms() + PATIENCE;

	row("a handler that calls fork(), %u times", FORKS);
	memory = map_private(BYTES);
	fill(memory, BYTES, 5);
	sigaction(SIGPROF, &act, &before);
	tick(PERIOD_US);
	while (forks < (int)FORKS && now_ms() < until)
		dereg(reg(memory, BYTES));
	tick(0);
	sigaction(SIGPROF, &before, NULL);
	EXPECT(forks > 0 && wrong == 0, "%d forks, %d went wrong", (int)forks, (int)wrong);
	expect_filled(memory, BYTES, 5);
	munmap(memory, BYTES);
}

int main(int argc, char **argv)
{
	return adopt_test(argc, argv, run);
}
