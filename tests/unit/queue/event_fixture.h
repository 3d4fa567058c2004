/* SPDX-License-Identifier: MIT */
/* A doorbell of a fake segment, and a process that is stopped at each of its instructions. */
#ifndef AV_TESTS_EVENT_FIXTURE_H
#define AV_TESTS_EVENT_FIXTURE_H

#include <fcntl.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "lib/stepped.h"
#include "segment/segment.h"
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

#endif
