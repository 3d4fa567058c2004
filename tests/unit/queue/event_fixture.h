/* SPDX-License-Identifier: MIT */
/* A doorbell of a fake segment, and a process that is stopped at each of its instructions. */
#ifndef AV_TESTS_EVENT_FIXTURE_H
#define AV_TESTS_EVENT_FIXTURE_H

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "segment/doorbell.h"
#include "unit/memory/fake_seg.h"

/* Return: the descriptor that its owner reads */
static inline int doorbell_open(struct fake_seg *f, uint32_t id)
{
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
	f->seg.doorbell[id].id = id;
	CHECK(av_own_fd_keep(&f->seg.doorbell[id].fifo, fds[1]));
	return fds[0];
}

static inline void doorbell_close(struct fake_seg *f, uint32_t id, int fd)
{
	av_own_fd_close(&f->seg.doorbell[id].fifo);
	close(fd);
}

/* Events that nobody has read yet. */
static inline int events_at(int fd)
{
	int bytes;

	CHECK(ioctl(fd, FIONREAD, &bytes) == 0);
	return bytes / (int)sizeof(struct av_doorbell_record);
}

/* A child that will do @what and end. It is stopped. */
static inline pid_t start_stopped(void (*what)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
		raise(SIGSTOP);
		what();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	return child;
}

/* One instruction of it. Return: false: it has ended */
static inline bool step(pid_t child)
{
	int status;

	CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	return WIFSTOPPED(status);
}

/* So that it is stopped in about 50 different places; sanitized code is ten times as long. */
static inline unsigned int stride_of(void (*what)(void))
{
	pid_t child = start_stopped(what);
	unsigned int steps = 0;

	while (step(child))
		steps++;
	return steps / 50 + 1;
}

#endif
