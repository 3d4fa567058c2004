/* SPDX-License-Identifier: MIT */
/*
 * Processes that are killed at any moment harm nobody else.
 *
 * This process, the survivor, connects to a victim in each round and moves data with it; the victim
 * has itself killed at a step and after a delay that the round's seed chooses. All the while the
 * survivor exchanges messages with a third process. After the death the survivor's requests must
 * end, in time; the exchange with the third process must lose nothing; no descriptor and no file
 * may be left.
 *
 * With a second argument, victims and the third process are on another host (lib/two_hosts.h).
 *
 * TEST_ROUNDS (or the first argument) and TEST_SEED choose how many rounds and which; both are
 * printed.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "crash/role.h"
#include "crash/survivor.h"
#include "crash/third.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/two_hosts.h"

#define KEPT 16u /* descriptors that may be kept for peers that are expected back */

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void show_descriptors(void)
{
	char path[64], target[256];

	for (int fd = 0; fd < 4096; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0)
			printf("     %d: %.*s\n", fd, (int)n, target);
	}
}

static uint64_t number(const char *name, const char *arg, uint64_t otherwise)
{
	const char *text = arg ? arg : getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
	struct end here;
	uint64_t rounds, seed;
	unsigned int before = 0;

	role_main(argc, argv);
	rounds = number("TEST_ROUNDS", argc > 1 ? argv[1] : NULL, TEST_SANITIZED ? 30 : 60);
	seed = number("TEST_SEED", NULL, (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid());
	printf("%lu rounds, TEST_SEED=%lu\n", rounds, seed);
	fflush(stdout);
	time_limit(200 + (unsigned int)rounds);
	if (argc > 2) {
		two_hosts_open(argc, argv);
		two_hosts_live(0);
		roles_elsewhere = true;
	} else {
		sandbox_enter();
	}
	end_open(&here);
	third.end = &here;
	third.buffer = here.buffer;
	third_start();
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t state = seed + i;

		row("round %lu: TEST_ROUNDS=1 TEST_SEED=%lu", i, seed + i);
		one_round(&here, mix(&state));
		if (i == 2)
			before = descriptors();
		if (i > 2 && descriptors() > before + KEPT) {
			fail_at(__FILE__, __LINE__, "%u descriptors instead of %u", descriptors(),
				before);
			show_descriptors();
			break;
		}
	}
	third_stop();
	end_close(&here);
	printf("longest wait after a death: %lu ms; %lu requests to the dead succeeded; %lu "
	       "messages to the "
	       "third and back\n",
	       slowest_ms, late_successes, third.messages);
	return sandbox_end();
}
