/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/real_calls.h"

/*
 * What the kernel keeps for us at the program's end: whose descriptor it is. As a pace it would be
 * 7 * 10^18 bytes per second, which no program asks of a socket of its own.
 */
#define MARK 0x616e7963ull

static TAILQ_HEAD(, av_cm_channel) channels = TAILQ_HEAD_INITIALIZER(channels);
static uint32_t last_number;

/* --- the pair -------------------------------------------------------------------------- */

static bool mark_channel_fd(int fd, uint32_t number)
{
	const uint64_t value = MARK << 32 | number;

	return av_raw_setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)) == 0;
}

bool av_cm_channel_is(int fd, uint32_t *number)
{
	uint64_t value = 0;
	socklen_t bytes = sizeof(value);
	int saved = errno;

	(void)av_raw_getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value, &bytes);
	errno = saved;
	*number = (uint32_t)value;
	return value >> 32 == MARK;
}

/*
 * In the watcher's thread: nothing ever comes but the end of the file. If the program has closed
 * the library's end, too (closefrom(3)), it may go unnoticed. Then the channel's ids last as long
 * as the process, and no other file is touched: all uses of this end ask av_own_fd().
 */
static void ended(struct av_watched_fd *w)
{
	struct av_cm_channel *c = av_container_of(w, struct av_cm_channel, end);
	int fd = av_own_fd(&w->socket);
	char byte;

	if (fd >= 0 && av_raw_recv(fd, &byte, 1, MSG_DONTWAIT) != 0)
		return;
	av_cm_lock();
	c->closed = true;
	av_own_fd_close(&c->end.socket); /* else it stays readable while the channel is used */
	av_cm_wake(0);
	av_cm_unlock();
}

/* Return: the program's end, or -errno; the other one is the channel's in any case */
static int make_pair(struct av_cm_channel *c, int flags)
{
	const int type = SOCK_SEQPACKET | SOCK_CLOEXEC;
	int pair[2];

	if (socketpair(AF_UNIX, type, 0, pair))
		return -errno;
	if (!av_own_fd_keep(&c->end.socket, pair[1]) || !mark_channel_fd(pair[0], c->number)) {
		int err = errno;

		close(pair[0]);
		return -err;
	}
	if (flags & O_NONBLOCK)
		(void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
	if (!(flags & O_CLOEXEC))
		(void)fcntl(pair[0], F_SETFD, 0);
	return pair[0];
}

static struct av_cm_channel *new_channel(void)
{
	struct av_cm_channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->pid = getpid();
	c->users = 1;
	c->end.socket = AV_OWN_FD_NONE;
	c->end.ready = ended;
	TAILQ_INIT(&c->events);
	TAILQ_INIT(&c->ids);
	av_cm_lock();
	c->number = ++last_number;
	TAILQ_INSERT_TAIL(&channels, c, entry);
	av_cm_unlock();
	return c;
}

static void free_cm_channel(struct av_cm_channel *c)
{
	av_own_fd_close(&c->end.socket);
	av_cm_lock();
	TAILQ_REMOVE(&channels, c, entry);
	free(c);
	av_cm_unlock();
}

int av_cm_channel_new(int flags)
{
	struct av_cm_channel *c = new_channel();
	int fd;

	if (!c)
		return -ENOMEM;
	fd = make_pair(c, flags);
	if (fd < 0)
		free_cm_channel(c);
	else
		av_watch_begin(&c->end);
	return fd;
}

void av_cm_channel_end(struct av_cm_channel *c)
{
	av_watch_end(&c->end);
	free_cm_channel(c);
}

/* --- life ------------------------------------------------------------------------------ */

struct av_cm_channel *av_cm_channel_get(uint32_t number)
{
	struct av_cm_channel *c;

	TAILQ_FOREACH(c, &channels, entry)
		if (c->number == number && !c->closed && c->pid == getpid()) {
			c->users++;
			return c;
		}
	return NULL;
}

/* The program's end counts as a user. */
static bool is_channel_unused(const struct av_cm_channel *c)
{
	return c->closed && c->users <= 1;
}

void av_cm_channel_put(struct av_cm_channel *c)
{
	c->users--;
	if (is_channel_unused(c))
		av_cm_wake(0);
}

struct av_cm_channel *av_cm_channel_closed(void)
{
	struct av_cm_channel *c;

	TAILQ_FOREACH(c, &channels, entry)
		if (is_channel_unused(c))
			return c;
	return NULL;
}

void av_cm_channels_forked(void)
{
	struct av_cm_channel *c;

	TAILQ_FOREACH(c, &channels, entry)
		av_own_fd_close(&c->end.socket);
	TAILQ_INIT(&channels);
}

/* --- events ---------------------------------------------------------------------------- */

/* A byte for each event, as far as the socket takes them: each wakes whoever waits for an edge. */
static void signal_channel_event(struct av_cm_channel *c)
{
	int fd = av_own_fd(&c->end.socket);

	if (fd >= 0)
		(void)!av_raw_send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void av_cm_channel_append(struct av_cm_channel *c, struct av_cm_event *e)
{
	TAILQ_INSERT_TAIL(&c->events, e, entry);
	signal_channel_event(c);
}

/* Another thread may have closed the number since the command came, and have a file of its own. */
static bool is_channel_at_fd(const struct av_cm_channel *c, int fd)
{
	uint32_t number;

	return av_cm_channel_is(fd, &number) && number == c->number;
}

/* The thread is cancelled while it waits. */
static void abandon(void *channel)
{
	av_cm_lock();
	av_cm_channel_put(channel);
	av_cm_unlock();
}

/*
 * recv(2) knows O_NONBLOCK, and which signals restart a call. It is the C library's, since a thread
 * may be cancelled here.
 */
int av_cm_channel_wait(struct av_cm_channel *c, int fd, int cancel)
{
	char byte;
	ssize_t n;

	if (!is_channel_at_fd(c, fd))
		return -EBADF;
	pthread_cleanup_push(abandon, c);
	pthread_setcancelstate(cancel, NULL);
	n = recv(fd, &byte, 1, MSG_PEEK);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	if (n > 0)
		return 0;
	return n < 0 && errno != ENOTSOCK ? -errno : -EBADF; /* closed by another thread */
}

void av_cm_channel_settle(const struct av_cm_channel *c, int fd)
{
	char byte;

	while (TAILQ_EMPTY(&c->events) && is_channel_at_fd(c, fd) &&
	       av_raw_recv(fd, &byte, 1, MSG_DONTWAIT) > 0)
		;
}

void av_cm_channel_fetched(struct av_cm_channel *c, int fd)
{
	struct av_cm_event *e = TAILQ_FIRST(&c->events);

	TAILQ_REMOVE(&c->events, e, entry);
	free(e);
	av_cm_channel_settle(c, fd);
}

struct av_cm_event *av_cm_channel_find(const struct av_cm_channel *c, const struct av_cm_id *id,
				       const struct av_cm_group *group)
{
	struct av_cm_event *e;

	TAILQ_FOREACH(e, &c->events, entry)
		if (id ? e->id == id : e->group == group)
			return e;
	return NULL;
}

void av_cm_channel_remove(struct av_cm_channel *c, struct av_cm_event *e)
{
	TAILQ_REMOVE(&c->events, e, entry);
}
