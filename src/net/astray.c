/* SPDX-License-Identifier: MIT */
#include "net/astray.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/lock.h"
#include "base/raw_socket.h"
#include "registry/process_socket.h"

/* In front of the datagrams. Both processes have the same build (registry/folder.h). */
struct header {
	struct av_net_path path;
	uint16_t source_port, congested;
	uint32_t segment;
};

int av_astray_socket(struct av_own_fd *own)
{
	int fd = av_raw_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return av_own_fd_keep(own, fd) ? 0 : -errno;
}

int av_astray_begin(const struct av_own_fd *own)
{
	int fd = av_own_fd(own);
	struct sockaddr_un a;

	if (!av_process_socket(&a, av_lock_self))
		return -ENAMETOOLONG;
	av_process_socket_remove(av_lock_self);
	return fchmod(fd, 0600) || av_raw_bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
}

void av_astray_end(void)
{
	av_process_socket_remove(av_lock_self);
}

int av_astray_pass(const struct av_own_fd *own, uint32_t owner, const struct av_cut *cut)
{
	struct header h = {.path = cut->path,
			   .source_port = cut->source_port,
			   .congested = cut->congested,
			   .segment = (uint32_t)cut->segment};
	struct iovec io[] = {{&h, sizeof(h)}, {(void *)(uintptr_t)cut->bytes, cut->count}};
	struct sockaddr_un a;
	struct msghdr m = {
		.msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = io, .msg_iovlen = 2};

	if (av_own_fd(own) < 0 || !av_process_socket(&a, owner))
		return -ENOTCONN;
	return av_raw_sendmsg(own->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

bool av_astray_get(struct av_cut *cut, const uint8_t *from, size_t bytes)
{
	struct header h;

	if (bytes < sizeof(h))
		return false;
	memcpy(&h, from, sizeof(h));
	*cut = (struct av_cut){.path = h.path,
			       .source_port = h.source_port,
			       .congested = h.congested != 0,
			       .bytes = from + sizeof(h),
			       .count = bytes - sizeof(h),
			       .segment = h.segment};
	return true;
}
