/* SPDX-License-Identifier: MIT */
/*
 * socket(2) of NETLINK_RDMA, and whose the socket is that a program sends by. The program gets a
 * real socket of another netlink protocol, so that everything but sending to the kernel is the
 * kernel's. docs/NETLINK.md
 *
 * A mark that the kernel keeps says that it is one of ours, so no table of descriptors can be wrong
 * after close(), dup() or fork(). A pace means nothing to netlink, and needs no privilege.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/netlink.h>

#include "base/real_files.h"
#include "base/uncancelled.h"
#include "copy/copy.h"
#include "preload/netlink_talk.h"
#include "preload/vsysfs_libc.h"

#define MARK 0x616e796eu

/* Has this process, or one that forked it, opened such a socket? Until then nothing is ours. */
static atomic_bool handed_out;

static bool is_quiet(void)
{
	return av_likely(!atomic_load_explicit(&handed_out, memory_order_relaxed));
}

/* --- opening ----------------------------------------------------------------------- */

static bool mark(int fd)
{
	const uint32_t pace = MARK;

	return setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace)) == 0;
}

/* Return: descriptor, or -1 */
static int open_ours(int type)
{
	AV_UNCANCELLED;
	int fd = av_next_socket()(AF_NETLINK, type, NETLINK_USERSOCK);

	if (fd >= 0 && !mark(fd)) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		atomic_store_explicit(&handed_out, true, memory_order_relaxed);
	return fd;
}

AV_LIBC(int, socket, (int domain, int type, int protocol))
{
	int fd = -1, saved = errno;

	if (av_unlikely(domain == AF_NETLINK && protocol == NETLINK_RDMA) && !av_real_files_only())
		fd = open_ours(type);
	if (av_unlikely(fd >= 0)) {
		errno = saved;
		return fd;
	}
	return av_next_socket()(domain, type, protocol);
}

/* --- whose socket, and whose message ----------------------------------------------- */

static uint32_t option(int fd, int name)
{
	uint32_t value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? 0 : value;
}

static bool is_marked(int fd)
{
	return option(fd, SO_MAX_PACING_RATE) == MARK && option(fd, SO_DOMAIN) == AF_NETLINK &&
	       option(fd, SO_PROTOCOL) == NETLINK_USERSOCK;
}

static bool is_the_kernel(const struct sockaddr_nl *to)
{
	return to->nl_family == AF_NETLINK && !to->nl_pid && !to->nl_groups;
}

/* Is the message for the kernel? @to: of the program's; none: for whom the socket is connected to
 */
static bool goes_to_kernel(int fd, const void *to, socklen_t len)
{
	struct sockaddr_nl addr = {0};
	socklen_t room = sizeof(addr);

	if (to && len)
		return len >= sizeof(addr) && av_copy(&addr, to, sizeof(addr)) == AV_COPY_OK &&
		       is_the_kernel(&addr);
	return !getpeername(fd, (struct sockaddr *)&addr, &room) && is_the_kernel(&addr);
}

/* Keeps errno. */
static bool is_ours(int fd, const void *to, socklen_t len)
{
	int saved = errno;
	bool ret = is_marked(fd) && goes_to_kernel(fd, to, len);

	errno = saved;
	return ret;
}

/* --- sending ----------------------------------------------------------------------- */

static ssize_t talk(int fd, const void *bytes, size_t len, int flags)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return av_netlink_talk(fd, &message, flags);
}

AV_LIBC(ssize_t, send, (int fd, const void *bytes, size_t len, int flags))
{
	if (is_quiet() || !is_ours(fd, NULL, 0))
		return av_next_send()(fd, bytes, len, flags);
	return talk(fd, bytes, len, flags);
}

AV_LIBC(ssize_t, sendto,
	(int fd, const void *bytes, size_t len, int flags, const struct sockaddr *to,
	 socklen_t to_len))
{
	if (is_quiet() || !is_ours(fd, to, to_len))
		return av_next_sendto()(fd, bytes, len, flags, to, to_len);
	return talk(fd, bytes, len, flags);
}

AV_LIBC(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags))
{
	struct msghdr copy;

	if (is_quiet() || av_copy(&copy, message, sizeof(copy)) != AV_COPY_OK ||
	    !is_ours(fd, copy.msg_name, copy.msg_namelen))
		return av_next_sendmsg()(fd, message, flags);
	return av_netlink_talk(fd, &copy, flags);
}
