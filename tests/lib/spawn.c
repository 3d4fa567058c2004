/* SPDX-License-Identifier: MIT */
#include "lib/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"

#define ANSWER_LIMIT 120 /* seconds until the other process counts as hung */

static void limit_waiting(int sock)
{
	struct timeval limit = {.tv_sec = ANSWER_LIMIT};

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

void spawn_self(struct spawned *s, const char *word)
{
	char number[16], exe[] = "/proc/self/exe", role[32];
	char *argv[] = {exe, role, number, NULL};
	int pair[2];

	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	fcntl(pair[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof(number), "%d", pair[1]);
	snprintf(role, sizeof(role), "%s", word);
	limit_waiting(pair[0]);
	if (posix_spawn(&s->pid, exe, NULL, NULL, argv, environ))
		DIE("posix_spawn");
	close(pair[1]);
	s->sock = pair[0];
}

int spawn_role(int argc, char **argv, const char *word)
{
	if (argc != 3 || strcmp(argv[1], word))
		return -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	row("(%s)", word + 2);
	return atoi(argv[2]);
}

void spawn_send(int sock, const void *message, size_t bytes)
{
	if (send(sock, message, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		DIE("the other process is gone");
}

size_t spawn_receive_any(int sock, void *message, size_t room)
{
	ssize_t n = TEMP_FAILURE_RETRY(
		recv(sock, message, room, 0)); /* interrupted if it was stopped */

	if (n < 0)
		DIE("no message from the other process");
	return (size_t)n;
}

void spawn_receive(int sock, void *message, size_t bytes)
{
	if (spawn_receive_any(sock, message, bytes) != bytes)
		DIE("no answer from the other process");
}

bool spawn_pending(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

void spawn_kill(struct spawned *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->sock);
}

void spawn_wait(struct spawned *s)
{
	int status = 0;

	EXPECT(waitpid(s->pid, &status, 0) == s->pid && status == 0,
	       "the other process ended with status 0x%x", status);
	close(s->sock);
}
