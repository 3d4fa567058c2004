/* SPDX-License-Identifier: MIT */
#include "segment/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/thread.h"

/* FIFOs as doorbells between processes. Each segment keeps a few of them open. */

static void doorbell_name(char name[16], uint32_t id)
{
	snprintf(name, 16, "doorbell%u", id);
}

/* Read-write: no end of file, no wait for writers, no SIGPIPE when the owner dies (pipe(7)). */
static int open_fifo(uint32_t ref, uint32_t id, int flags)
{
	char name[16];

	doorbell_name(name, id);
	return av_dir_context_open(av_dir_folder(), ref, name, O_RDWR | flags);
}

int av_doorbell_create(struct av_seg *seg, uint32_t id)
{
	char name[16];
	int fd;

	doorbell_name(name, id);
	if (mkfifoat(av_own_fd(&seg->folder), name, 0600))
		return -errno;
	av_folder_rights(av_own_fd(&seg->folder), name, 0600);
	fd = open_fifo(seg->ref, id, 0);
	if (fd < 0) {
		int ret = -errno;

		unlinkat(av_own_fd(&seg->folder), name, 0);
		return ret;
	}
	return fd;
}

void av_doorbell_remove(struct av_seg *seg, uint32_t id)
{
	size_t i = id % AV_ARRAY_SIZE(seg->doorbell);
	char name[16];

	doorbell_name(name, id);
	unlinkat(av_own_fd(&seg->folder), name, 0);
	AV_LOCKED(&seg->doorbell_mutex);
	if (seg->doorbell[i].id == id)
		av_own_fd_close(&seg->doorbell[i].fifo);
}

int av_doorbell_peek(struct av_seg *seg, uint32_t id)
{
	int fd = open_fifo(seg->ref, id, O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/* A descriptor to write to, kept for the next time; -1 and errno. Context: doorbell_mutex. */
static int writer(struct av_seg *seg, uint32_t id)
{
	size_t i = id % AV_ARRAY_SIZE(seg->doorbell);
	struct av_own_fd *fifo = &seg->doorbell[i].fifo;
	int fd = seg->doorbell[i].id == id ? av_own_fd(fifo) : -1;

	if (fd >= 0)
		return fd;
	av_own_fd_close(fifo);
	seg->doorbell[i].id = id;
	return av_own_fd_keep(fifo, open_fifo(seg->ref, id, O_NONBLOCK)) ? fifo->fd : -1;
}

/* Return: true; or false and errno. */
static bool write_doorbell_record(int fd, const struct av_doorbell_record *record)
{
	ssize_t n;

	do
		n = write(fd, record, sizeof(*record));
	while (n < 0 && errno == EINTR);
	return n >= 0;
}

/* A full FIFO; one record for each object may be more than it holds. Return: is it larger now? */
static bool enlarge(int fd)
{
	int bytes = fcntl(fd, F_GETPIPE_SZ);

	return bytes > 0 && bytes < AV_DOORBELL_BYTES && fcntl(fd, F_SETPIPE_SZ, 2 * bytes) > bytes;
}

/* Return: 0, also if the FIFO stays full; or -errno. If @fd is -1, errno says why. */
static int append_doorbell_record(int fd, const struct av_doorbell_record *record)
{
	if (fd < 0)
		return -errno;
	while (!write_doorbell_record(fd, record)) {
		if (errno != EAGAIN)
			return -errno;
		if (!enlarge(fd))
			break;
	}
	return 0;
}

int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record)
{
	AV_UNCANCELLED;
	AV_ERRNO_KEPT;
	AV_LOCKED(&seg->doorbell_mutex);

	return append_doorbell_record(writer(seg, id), record);
}

int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record)
{
	AV_UNCANCELLED;
	AV_ERRNO_KEPT;
	int fd AV_CLOSED = open_fifo(ref, id, O_NONBLOCK);

	return append_doorbell_record(fd, record);
}
