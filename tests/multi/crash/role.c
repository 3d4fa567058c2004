/* SPDX-License-Identifier: MIT */
/* Roles. */
#include "crash/role.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crash/third.h"
#include "crash/victim.h"
#include "lib/expect.h"
#include "lib/two_hosts.h"

bool roles_elsewhere;

pid_t role_start(const char *role, uint64_t seed, unsigned int kinds, int *sock)
{
	char exe[] = "/proc/self/exe", word[16], number[16], seed_text[32], kind_text[16];
	char *argv[] = {exe, word, number, seed_text, kind_text, NULL};
	int pair[2];
	pid_t pid;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fcntl(pair[0], F_SETFD, FD_CLOEXEC);
	snprintf(word, sizeof(word), "%s", role);
	snprintf(number, sizeof(number), "%d", pair[1]);
	snprintf(seed_text, sizeof(seed_text), "%lu", seed);
	snprintf(kind_text, sizeof(kind_text), "%u", kinds);
	if (roles_elsewhere)
		two_hosts_live(1);
	NEED(posix_spawn(&pid, exe, NULL, NULL, argv, environ) == 0);
	if (roles_elsewhere)
		two_hosts_live(0);
	close(pair[1]);
	*sock = pair[0];
	return pid;
}

void role_main(int argc, char **argv)
{
	if (argc != 5)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	time_limit(600);
	row("(%s, seed %s)", argv[1] + 2, argv[3]);
	if (!strcmp(argv[1], "--third"))
		third_main(atoi(argv[2]));
	victim_main(atoi(argv[2]), strtoull(argv[3], NULL, 0), (unsigned int)atoi(argv[4]));
}
