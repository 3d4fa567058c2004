/* SPDX-License-Identifier: MIT */
/*
 * A peer whose segment is nonsense: a process overwrites words of its own context's segment at
 * random, while it and another process exchange all kinds of requests. That process must not crash,
 * none of its verbs may take much longer than the transport's timeouts, none of its bytes outside
 * of regions may change, and its connection to a third process must work. Of the first process
 * nothing is asked: if it crashes or hangs, another one takes its place.
 *
 *     spoiled [--seed N] [--flips N] [--seconds N]
 *
 * A seed repeats a run as far as threads can be repeated.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/spawn.h"
#include "spoiled/spoiler.h"
#include "spoiled/target.h"

#define FLIPS	   400000u
#define SECONDS	   12u
#define LIMIT_MORE 150u

static void arguments(int argc, char **argv, struct target_order *order)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seed"))
			order->seed = value;
		else if (!strcmp(argv[i], "--flips"))
			order->flips = value;
		else if (!strcmp(argv[i], "--seconds"))
			order->seconds = value;
		else
			DIE("%s?", argv[i]);
	}
}

int main(int argc, char **argv)
{
	struct target_order order = {
		.seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid(),
		.flips = FLIPS,
		.seconds = SECONDS,
	};
	struct spawned target;
	int status = 0;

	side_agent_main(argc, argv);
	spoiler_main(argc, argv);
	target_main(argc, argv);
	arguments(argc, argv, &order);
	if (order.seconds)
		time_limit((unsigned int)order.seconds + LIMIT_MORE);
	row("--seed %lu", order.seed);
	printf("--seed %lu\n", order.seed);
	fflush(stdout);
	sandbox_enter();
	spawn_self(&target, TARGET_WORD);
	spawn_send(target.sock, &order, sizeof(order));
	EXPECT(waitpid(target.pid, &status, 0) == target.pid && WIFEXITED(status), "signal %d: %s",
	       WTERMSIG(status), strsignal(WTERMSIG(status)));
	EXPECT(WEXITSTATUS(status) == 0, "exit status %d", WEXITSTATUS(status));
	if (failures() == 0)
		return sandbox_end();
}
