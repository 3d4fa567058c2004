/* SPDX-License-Identifier: MIT */
#include "segment/segment.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/thread.h"

struct search {
	av_file_visit *visit;
	void *arg;
};

static bool visit_if_regular(int dir, const char *name, void *arg)
{
	const struct search *s = arg;
	struct stat st;

	return fstatat(dir, name, &st, 0) || !S_ISREG(st.st_mode) ||
	       s->visit(dir, name, &st, s->arg);
}

void av_file_search(const char *folder, av_file_visit *visit, void *arg)
{
	int dir = (int)syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	av_folder_each(dir, visit_if_regular, &(struct search){visit, arg});
	syscall(SYS_close, dir);
}

#define REQUEST "anyverbs " /* then device, inode and nonce */

/* --- handing out ----------------------------------------------------------------- */

/* Bind or connect a socket to @path, by @call; by way of its folder if too long for an address. */
static bool at_path(int fd, const char *path,
		    int (*call)(int fd, const struct sockaddr *address, socklen_t bytes))
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const int room = sizeof(a.sun_path);
	const char *name = strrchr(path, '/');
	char parent[PATH_MAX];
	int folder AV_CLOSED = -1;
	bool fits = snprintf(a.sun_path, sizeof(a.sun_path), "%s", path) < room;

	if (!fits && name && name - path < PATH_MAX) {
		snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
		folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
		fits = folder >= 0 && snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d%s",
					       folder, name) < room;
	}
	return fits && call(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static int unix_socket(void)
{
	return av_raw_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* A message of one byte with one descriptor, or room for one: a second would stay open. */
struct message {
	struct msghdr head;
	struct iovec io;
	char byte;
	union {
		struct cmsghdr cmsg;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
};

static void message_init(struct message *m)
{
	*m = (struct message){.byte = 0};
	m->io = (struct iovec){&m->byte, 1};
	m->head = (struct msghdr){.msg_iov = &m->io,
				  .msg_iovlen = 1,
				  .msg_control = &m->control,
				  .msg_controllen = CMSG_LEN(sizeof(int))};
}

static void send_fd_pass_fd(int fd, int file)
{
	struct message m;

	message_init(&m);
	m.control.cmsg = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&m.control.cmsg), &file, sizeof(file));
	(void)!av_raw_sendmsg(fd, &m.head, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool (*_Atomic may_have)(uint64_t dev, uint64_t ino);

void av_fd_pass_files_by(bool (*may)(uint64_t dev, uint64_t ino))
{
	atomic_store(&may_have, may);
}

/*
 * Which other file is wanted stands in the name of the asker's socket, which needs no folder, and
 * is there before it connects: nobody waits for a message. @nonce: no two sockets have one name.
 */
static socklen_t name_request(struct sockaddr_un *a, const struct av_fd_passed *what,
			      uint64_t nonce)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
	       (socklen_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1,
				   REQUEST "%" PRIx64 " %" PRIx64 " %" PRIx64, what->dev, what->ino,
				   nonce);
}

struct wanted {
	uint64_t dev, ino;
	int fd;
};

static bool match_fd_pass_file(int dir, const char *name, const struct stat *st, void *arg)
{
	struct wanted *w = arg;

	(void)dir;
	if (st->st_dev == w->dev && st->st_ino == w->ino)
		w->fd = (int)strtol(name, NULL, 10);
	return w->fd < 0;
}

/* The program's own descriptor, which is neither kept nor closed here. */
static int asked_for(const struct sockaddr_un *a, const struct av_fd_pass *h)
{
	bool (*may)(uint64_t, uint64_t) = atomic_load(&may_have);
	struct wanted w = {.fd = -1};
	char *rest;

	if (strncmp(a->sun_path + 1, REQUEST, strlen(REQUEST)) != 0)
		return av_own_fd(h->file);
	w.dev = strtoull(a->sun_path + 1 + strlen(REQUEST), &rest, 16);
	w.ino = strtoull(rest, NULL, 16);
	if (may && may(w.dev, w.ino))
		av_file_search("/proc/self/fd", match_fd_pass_file, &w);
	return w.fd;
}

/* Whoever can connect may have it: the folder is the user's alone. */
static void serve_fd_pass_request(struct av_watch_fd *w)
{
	struct av_fd_pass *h =
		(struct av_fd_pass *)((char *)w - offsetof(struct av_fd_pass, listener));
	struct sockaddr_un from = {0};
	socklen_t bytes = sizeof(from) - 1;
	int fd = accept4(w->socket.fd, (struct sockaddr *)&from, &bytes,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);
	int file = fd < 0 ? -1 : asked_for(&from, h);

	w->in_vain = fd < 0 && errno != EAGAIN; /* no descriptor is free */
	if (fd >= 0 && file >= 0)
		send_fd_pass_fd(fd, file);
	if (fd >= 0)
		close(fd);
	if (h->called)
		h->called(h);
}

void av_fd_pass_begin(struct av_fd_pass *h, const char *path, const struct av_own_fd *file,
		      void (*called)(struct av_fd_pass *h))
{
	int fd;

	*h = (struct av_fd_pass){
		.listener.ready = serve_fd_pass_request, .file = file, .called = called};
	if (!av_own_fd_keep(&h->listener.socket, unix_socket()))
		return;
	fd = h->listener.socket.fd;
	if (fchmod(fd, 0600) == 0 && at_path(fd, path, av_raw_bind) &&
	    av_raw_listen(fd, SOMAXCONN) == 0)
		av_watch_begin(&h->listener);
	else
		av_own_fd_close(&h->listener.socket);
}

void av_fd_pass_end(struct av_fd_pass *h)
{
	if (h->listener.socket.fd < 0)
		return;
	av_watch_end(&h->listener);
	av_own_fd_close(&h->listener.socket);
}

void av_fd_pass_forked(struct av_fd_pass *h)
{
	av_own_fd_close(&h->listener.socket);
}

/* --- being handed ---------------------------------------------------------------- */

static bool matches_passed_file(const struct av_fd_passed *what, const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_ino == what->ino &&
	       (what->dev ? st->st_dev == what->dev : st->st_size == (off_t)what->bytes);
}

/* Looks before it opens: another process's file may be a device that notices. */
static int by_proc(const struct av_fd_passed *what)
{
	char path[48];
	struct stat st;
	int fd;

	if (what->pid <= 0 || what->number < 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)what->pid, what->number);
	if (stat(path, &st))
		return -errno;
	if (!matches_passed_file(what, &st))
		return -ESTALE;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The program's handlers may interrupt this thread at any rate. */
static bool is_answered(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t until = 0;
	int n;

	do
		n = av_raw_poll(&p, 1, AV_PEER_TIMEOUT_NS / 1000000);
	while (n < 0 && errno == EINTR && !av_timed_out(&until));
	return n == 1;
}

static int receive(int fd)
{
	struct message m;
	int file;

	message_init(&m);
	if (!is_answered(fd))
		return -ETIMEDOUT;
	if (av_raw_recvmsg(fd, &m.head, MSG_CMSG_CLOEXEC) <= 0 || !CMSG_FIRSTHDR(&m.head) ||
	    m.control.cmsg.cmsg_type != SCM_RIGHTS ||
	    m.control.cmsg.cmsg_len != CMSG_LEN(sizeof(int)))
		return -ENOENT;
	memcpy(&file, CMSG_DATA(&m.control.cmsg), sizeof(file));
	return file;
}

static bool bind_request(int fd, const struct av_fd_passed *what)
{
	struct sockaddr_un a;
	socklen_t bytes = name_request(&a, what, av_now_ns());

	return av_raw_bind(fd, (struct sockaddr *)&a, bytes) == 0;
}

/* @what: as below; NULL: nothing. Return: a connected descriptor, or -errno */
static int connect_fd_pass(const char *path, const struct av_fd_passed *what)
{
	int fd = unix_socket();

	if (fd < 0)
		return -errno;
	if ((!what || !what->dev || bind_request(fd, what)) && at_path(fd, path, av_raw_connect))
		return fd;
	close(fd);
	return -ENOENT;
}

static int by_socket(const char *path, const struct av_fd_passed *what)
{
	int fd AV_CLOSED = connect_fd_pass(path, what);

	return fd < 0 ? fd : receive(fd);
}

void av_fd_pass_call(const char *path)
{
	AV_UNCANCELLED;
	int fd = connect_fd_pass(path, NULL);

	av_fd_close(&fd);
}

int av_fd_passed_open(const struct av_fd_passed *what, const char *path)
{
	AV_UNCANCELLED;
	int fd = by_proc(what);
	struct stat st;

	if (fd < 0 && path)
		fd = by_socket(path, what);
	if (fd < 0 || (fstat(fd, &st) == 0 && matches_passed_file(what, &st)))
		return fd;
	syscall(SYS_close, fd);
	return -ESTALE;
}
