/* SPDX-License-Identifier: MIT */
#include "preload/netlink_kernel.h"

#include <sys/socket.h>
#include <unistd.h>

#include "preload/vsysfs_libc.h"

/* The kernel fills what a program can read at once, and programs have buffers of a page. */
#define DATAGRAM_BYTES 4096

/* Made by the kernel's module. Without it, asking for the protocol would start modprobe(8). */
#define DEVICES "/sys/class/infiniband"

/* Add the messages of one datagram. Return: true: the end of a dump was among them */
static bool pass(const void *datagram, size_t len, struct av_nl_out *out)
{
	const struct nlmsghdr *message;
	bool done = false;
	size_t at = 0;

	while ((message = av_nl_next(datagram, len, &at))) {
		av_nl_pass(out, message);
		done = done || message->nlmsg_type == NLMSG_DONE;
	}
	return done;
}

/* The kernel has answered before send(2) returns; of a dump it goes on as we read. */
static void hear(int fd, bool dump, struct av_nl_out *out)
{
	char bytes[DATAGRAM_BYTES] AV_ALIGNED(NLMSG_ALIGNTO);
	bool done = false;
	ssize_t n;

	while (!done && (n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		done = pass(bytes, (size_t)n, out);
	if (dump && !done)
		av_nl_done(out, 0);
}

bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out)
{
	const struct sockaddr_nl to = {.nl_family = AF_NETLINK};
	bool dump = (request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP, sent;
	int fd;

	if (av_next_access()(DEVICES, F_OK))
		return false;
	fd = av_next_socket()(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0)
		return false;
	sent = av_next_sendto()(fd, request, request->nlmsg_len, 0, (const struct sockaddr *)&to,
				sizeof(to)) >= 0;
	if (sent)
		hear(fd, dump, out);
	close(fd);
	return sent;
}
