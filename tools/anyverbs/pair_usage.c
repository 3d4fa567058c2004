/* SPDX-License-Identifier: MIT */
#include "pair_usage.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define USAGE_BYTES 8192
#define SECONDS	    5.0

static void become(const char *program, int output)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(output, STDERR_FILENO) < 0)
		_exit(1);
	execlp(program, program, "-h", (char *)NULL);
	_exit(1);
}

/* All that it says, as far as there is room and time. */
static void read_all(int fd, char text[USAGE_BYTES])
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	double until = av_now_seconds() + SECONDS;
	size_t length = 0;
	ssize_t n = 1;

	while (n > 0 && length < USAGE_BYTES - 1) {
		double left = until - av_now_seconds();

		n = left > 0 && poll(&ready, 1, (int)(left * 1000) + 1) > 0
			    ? read(fd, text + length, USAGE_BYTES - 1 - length)
			    : 0;
		length += n > 0 ? (size_t)n : 0;
	}
	text[length] = '\0';
}

bool av_pair_usage_has(const char *program, const char *word)
{
	char text[USAGE_BYTES];
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	pid = fork();
	if (pid == 0)
		become(program, ends[1]);
	close(ends[1]);
	read_all(ends[0], text);
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL); /* unless it has ended */
		waitpid(pid, NULL, 0);
	}
	return strstr(text, word);
}
