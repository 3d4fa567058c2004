/* SPDX-License-Identifier: MIT */
/*
 * Sockets of ours, by the kernel's own calls. Functions of libc may be others' by now: librspreload
 * makes sockets of TCP and UDP to ones of librdmacm, which connect through this library. And they
 * may be ours (preload/netlink_hooks.c). None is a point at which a thread is cancelled.
 *
 * As the functions of the C library: -1 and errno.
 */
#ifndef AV_BASE_RAW_SOCKET_H
#define AV_BASE_RAW_SOCKET_H

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int av_raw_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static inline int av_raw_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	return (int)syscall(SYS_bind, fd, address, bytes);
}

static inline int av_raw_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	return (int)syscall(SYS_connect, fd, address, bytes);
}

static inline int av_raw_listen(int fd, int backlog)
{
	return (int)syscall(SYS_listen, fd, backlog);
}

static inline int av_raw_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
	return (int)syscall(SYS_getsockname, fd, address, bytes);
}

static inline int av_raw_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	return (int)syscall(SYS_getsockopt, fd, level, name, value, bytes);
}

static inline int av_raw_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	return (int)syscall(SYS_setsockopt, fd, level, name, value, bytes);
}

static inline ssize_t av_raw_send(int fd, const void *from, size_t bytes, int flags)
{
	return syscall(SYS_sendto, fd, from, bytes, flags, NULL, 0);
}

static inline ssize_t av_raw_recv(int fd, void *to, size_t bytes, int flags)
{
	return syscall(SYS_recvfrom, fd, to, bytes, flags, NULL, NULL);
}

static inline ssize_t av_raw_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline ssize_t av_raw_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

/* @timeout_ms: negative: none */
static inline int av_raw_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec time = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};

	return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &time, NULL, 0);
}

#endif
