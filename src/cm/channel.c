/* SPDX-License-Identifier: MIT */

#include <fcntl.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "cm/cm.h"
#include "copy/copy.h"
#include "transport/observed.h"

/* Our mark at the program's end, as its pace: 7 * 10^18 bytes per second, which no program asks. */
#define MARK 0x616e7963ull

static TAILQ_HEAD(, av_cm_channel) channels = TAILQ_HEAD_INITIALIZER(channels);
static uint32_t last_number;

/* --- the pair -------------------------------------------------------------------------- */

static bool mark_channel_fd(int fd, uint32_t number)
{
	const uint64_t value = MARK << 32 | number;

	return av_raw_setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)) == 0;
}

bool av_cm_is_channel(int fd, uint32_t *number)
{
	uint64_t value = 0;
	socklen_t bytes = sizeof(value);
	AV_ERRNO_KEPT;

	(void)av_raw_getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value, &bytes);
	*number = (uint32_t)value;
	return value >> 32 == MARK;
}

/*
 * In the watcher's thread: nothing ever comes but the end of the file. If the program has closed
 * the library's end, too (closefrom(3)), it may go unnoticed. Then the channel's ids last as long
 * as the process, and no other file is touched: all uses of this end ask av_own_fd().
 */
static void ended(struct av_watch_fd *w)
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

/* A command on an id without a device, or on none, obeys the rules of the first device. */
static int inject_cm_error(enum av_verb verb, const struct av_cm_id *id)
{
	unsigned int count;
	const struct av_device *dev = id && id->where.dev ? id->where.dev : av_devices(&count)[0];

	return -av_inject_device_verb(dev, verb);
}

int av_cm_channel_new(int flags)
{
	int fd = inject_cm_error(AV_VERB_CM_CREATE_EVENT_CHANNEL, NULL);
	struct av_cm_channel *c = fd ? NULL : new_channel();

	if (fd)
		return -av_refused(AV_VERB_CM_CREATE_EVENT_CHANNEL, -fd);
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

static bool is_channel_unused(const struct av_cm_channel *c)
{
	return c->closed && c->users == 0;
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
void av_cm_channel_append(struct av_cm_channel *c, struct av_cm_event *e)
{
	int fd = av_own_fd(&c->end.socket);

	TAILQ_INSERT_TAIL(&c->events, e, entry);
	if (fd >= 0)
		(void)!av_raw_send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Another thread may have closed the number since the command came, and have a file of its own. */
static bool is_channel_at_fd(const struct av_cm_channel *c, int fd)
{
	uint32_t number;

	return av_cm_is_channel(fd, &number) && number == c->number;
}

void av_cm_channel_settle(const struct av_cm_channel *c, int fd)
{
	char byte;

	while (TAILQ_EMPTY(&c->events) && is_channel_at_fd(c, fd) &&
	       av_raw_recv(fd, &byte, 1, MSG_DONTWAIT) > 0)
		;
}

int av_cm_respond(const struct av_cm_call *call, uint64_t to, const void *answer, size_t bytes)
{
	if (bytes > call->out_bytes)
		bytes = call->out_bytes;
	return av_copy((void *)(uintptr_t)to, answer, bytes) == AV_COPY_OK ? 0 : -EFAULT;
}

/* --- fetching an event ---------------------------------------------------------------------- */

/* The thread is cancelled while it waits. */
static void abandon(void *channel)
{
	av_cm_lock();
	av_cm_channel_put(channel);
	av_cm_unlock();
}

/*
 * Block at the program's @fd until an event may wait. @cancel: the cancellation state meanwhile; if
 * cancelled, puts the channel. By the C library's recv(2), a cancellation point, which knows
 * O_NONBLOCK and which signals restart a call. Context: not locked; cancellation is disabled, and
 * is again afterwards. Return: 0. -EAGAIN: O_NONBLOCK; -EINTR: a signal whose handler does not
 * restart calls; -EBADF: @fd is another file by now; another -errno of recv(2)
 */
static int wait_for_cm_event(struct av_cm_channel *c, int fd, int cancel)
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

static void count_cm_event(const struct av_cm_event *e)
{
	e->id->reported++;
	if (e->group)
		e->group->reported++;
	if (!e->fresh)
		return;
	e->fresh->hidden = false;
	e->id->backlog++;
}

/* Return: 0; -EAGAIN: another thread was faster; what cannot be delivered stays */
static int deliver_cm_event(struct av_cm_call *call)
{
	const struct rdma_ucm_get_event *command = AV_CM_BODY(call, struct rdma_ucm_get_event);
	struct av_cm_event *e = TAILQ_FIRST(&call->channel->events);
	int ret;

	if (!e) {
		av_cm_channel_settle(call->channel, call->fd);
		return -EAGAIN;
	}
	if (call->out_bytes < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	ret = av_cm_respond(call, command->response, &e->body, sizeof(e->body));
	if (ret)
		return ret;
	count_cm_event(e);
	TAILQ_REMOVE(&call->channel->events, e, entry);
	free(e);
	av_cm_channel_settle(call->channel, call->fd);
	return 0;
}

static int get_event(struct av_cm_call *call)
{
	int ret;

	do {
		av_cm_unlock();
		ret = wait_for_cm_event(call->channel, call->fd, call->cancel);
		av_cm_lock();
		if (ret)
			return ret;
		ret = deliver_cm_event(call);
	} while (ret == -EAGAIN);
	return ret;
}

/* --- write(2) -------------------------------------------------------------------------- */

static const struct av_cm_row get_event_row[] = {
	AV_CM_ROW(GET_EVENT, GET_EVENT, get_event, 0, AV_CM_NO_ID, get_event), {0}};
static const struct av_cm_row *const tables[] = {get_event_row, av_cm_id_rows, av_cm_address_rows,
						 av_cm_connection_rows, av_cm_query_rows};

static const struct av_cm_row *find_command(uint32_t number)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(tables); i++)
		for (const struct av_cm_row *row = tables[i]; row->run; row++)
			if (row->number == number)
				return row;
	return NULL;
}

/* Fill in @call, which is zeros, from the program's bytes. Return: 0, and @row; or -errno */
static int read_command(struct av_cm_call *call, const void *bytes, size_t count,
			const struct av_cm_row **row)
{
	struct rdma_ucm_cmd_hdr header;
	size_t body;

	if (count < sizeof(header))
		return -EINVAL;
	if (av_copy(&header, bytes, sizeof(header)) != AV_COPY_OK)
		return -EFAULT;
	if (header.cmd > AV_CM_CMD_WRITE_EVENT || header.in + sizeof(header) > count)
		return -EINVAL;
	*row = find_command(header.cmd);
	if (!*row)
		return -ENOSYS;
	if (header.in < (*row)->least)
		return -EINVAL;
	body = header.in < AV_CM_COMMAND_BYTES ? header.in : AV_CM_COMMAND_BYTES;
	call->out_bytes = header.out;
	return av_copy(call->body, (const uint8_t *)bytes + sizeof(header), body) == AV_COPY_OK
		       ? 0
		       : -EFAULT;
}

static int refuse_inherited(void)
{
	av_warn_once("an event channel of rdma_cm was inherited over fork(), and cannot be "
		     "used here: open one in each process");
	return -av_refused(AV_VERB_CM_CREATE_EVENT_CHANNEL,
			   av_refuse(EACCES, AV_CHECK_CM_INHERITED, 0, 0));
}

/* Context: locked; the command may unlock meanwhile */
static int run_cm_command(const struct av_cm_row *row, struct av_cm_call *call)
{
	uint32_t number;
	int ret = 0;

	if (call->out_bytes < row->room)
		return -ENOSPC;
	if (row->id_at != AV_CM_NO_ID) {
		memcpy(&number, call->body + row->id_at, sizeof(number));
		ret = av_cm_id_find(call->channel, number, &call->id);
	}
	if (!ret)
		ret = inject_cm_error(row->verb, call->id);
	return ret ? ret : row->run(call);
}

static int carry_out(int fd, uint32_t number, const void *bytes, size_t count)
{
	AV_UNCANCELLED;
	struct av_cm_call call = {.fd = fd, .cancel = av_cancel};
	const struct av_cm_row *row;
	uint32_t now;
	int ret = read_command(&call, bytes, count, &row);

	if (ret)
		return ret;
	av_cm_lock();
	call.channel = av_cm_channel_get(number);
	if (call.channel) {
		ret = run_cm_command(row, &call);
		av_cm_channel_put(call.channel);
	}
	av_cm_unlock();
	if (!call.channel) /* else another thread has closed it meanwhile */
		return av_cm_is_channel(fd, &now) && now == number ? refuse_inherited() : -EBADF;
	if (ret && ret != -EAGAIN && ret != -EINTR)
		(void)av_refused(row->verb, -ret);
	return ret;
}

ssize_t av_cm_write(int fd, uint32_t number, const void *bytes, size_t count)
{
	int saved = errno, ret;

	pthread_testcancel(); /* as in write(2), before anything is done */
	ret = carry_out(fd, number, bytes, count);
	errno = ret ? -ret : saved;
	return ret ? -1 : (ssize_t)count;
}
