/* SPDX-License-Identifier: MIT */
/* FIFOs as doorbells between processes. Each segment keeps a few of them open. */
#include "segment/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "registry/directory.h"

static void doorbell_name(char name[16], uint32_t id)
{
	snprintf(name, 16, "doorbell%u", id);
}

int av_doorbell_create(struct av_seg *seg, uint32_t id)
{
	char name[16];
	int fd;

	doorbell_name(name, id);
	if (mkfifoat(seg->folder_fd, name, 0600))
		return -errno;
	/*
	 * Read and write: so it is never at end of file, and opening does not wait for a writer
	 * (pipe(7)).
	 */
	fd = openat(seg->folder_fd, name, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		int ret = -errno;

		unlinkat(seg->folder_fd, name, 0);
		return ret;
	}
	return fd;
}

static void forget(struct av_seg *seg, uint32_t id)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(seg->doorbell); i++) {
		if (seg->doorbell[i].fd >= 0 && seg->doorbell[i].id == id) {
			close(seg->doorbell[i].fd);
			seg->doorbell[i].fd = -1;
		}
	}
}

void av_doorbell_remove(struct av_seg *seg, uint32_t id)
{
	char name[16];

	doorbell_name(name, id);
	unlinkat(seg->folder_fd, name, 0);
	pthread_mutex_lock(&seg->doorbell_mutex);
	forget(seg, id);
	pthread_mutex_unlock(&seg->doorbell_mutex);
}

int av_doorbell_peek(struct av_seg *seg, uint32_t id)
{
	char name[16];
	int fd;

	doorbell_name(name, id);
	fd = openat(seg->folder_fd, name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_writer(int folder_fd, uint32_t id)
{
	char name[16];

	doorbell_name(name, id);
	/*
	 * Read and write: then this process is a reader itself, and writing raises no SIGPIPE when
	 * the owner dies.
	 */
	return openat(folder_fd, name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

/* A descriptor to write to, kept for the next time. Context: the caller holds doorbell_mutex. */
static int writer(struct av_seg *seg, uint32_t id)
{
	size_t i = id % AV_ARRAY_SIZE(seg->doorbell);
	int fd;

	if (seg->doorbell[i].fd >= 0 && seg->doorbell[i].id == id)
		return seg->doorbell[i].fd;
	if (seg->doorbell[i].fd >= 0)
		close(seg->doorbell[i].fd);
	fd = open_writer(seg->folder_fd, id);
	seg->doorbell[i].id = id;
	seg->doorbell[i].fd = fd;
	return fd;
}

/* Return: 0, also if the FIFO is full; or -errno. If @fd is -1, errno says why. */
static int append(int fd, const struct av_doorbell_record *record)
{
	ssize_t n = -1;

	if (fd >= 0)
		do
			n = write(fd, record, sizeof(*record));
		while (n < 0 && errno == EINTR);
	return n < 0 && errno != EAGAIN ? -errno : 0;
}

int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record)
{
	AV_UNCANCELLED;
	int saved = errno, ret;

	pthread_mutex_lock(&seg->doorbell_mutex);
	ret = append(writer(seg, id), record);
	pthread_mutex_unlock(&seg->doorbell_mutex);
	errno = saved;
	return ret;
}

int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record)
{
	AV_UNCANCELLED;
	int saved = errno, folder = av_dir_context_open(ref), fd, ret;

	if (folder < 0)
		return folder;
	fd = open_writer(folder, id);
	ret = append(fd, record);
	if (fd >= 0)
		close(fd);
	close(folder);
	errno = saved;
	return ret;
}
