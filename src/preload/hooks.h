/* SPDX-License-Identifier: MIT */
/* What the preloaded library puts in the place of the C library's functions. */
#ifndef AV_PRELOAD_HOOKS_H
#define AV_PRELOAD_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <rdma/rdma_netlink.h>

#include "base/compiler.h"
#include "base/nlmsg.h"
#include "device/device.h"

/* === netlink hooks =============================================================== */

/* NETLINK_RDMA sockets of the program: what it asks, and who answers. */

/* The kernel's own RDMA devices, which a program goes on to see beside ours. */

/*
 * Have the kernel carry out a request, and add its answers, if there are any: of a dump, all parts
 * and an end. Return: false: the kernel has no RDMA devices; nothing was added
 */
AV_MUST_USE bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out);

/* === netlink resource ============================================================ */

/* Requests of the kind RDMA_NL_NLDEV, and what is said of devices, ports and objects. */

/* What does a request of the kind RDMA_NL_NLDEV say, and by which numbers are our devices named? */

struct av_nldev_request {
	const struct nlmsghdr *header;
	unsigned int command;				/* enum rdma_nldev_command, unchecked */
	const struct nlattr *attr[RDMA_NLDEV_ATTR_MAX]; /* numbers have their four bytes */
	const struct av_device *dev;			/* ours that it names; NULL: none */
};

/* What NETLINK_RDMA says of devices, their ports and the system. */

/* What NETLINK_RDMA says of the objects that exist, in all processes. */

/* Which answer does a request on a NETLINK_RDMA socket get? */

/* Write the answers to all requests of a datagram (aligned to 4 bytes). */
void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out);

/* === cm hooks ==================================================================== */

/* Descriptors of /dev/infiniband/rdma_cm: which numbers may be some. */

/* open(2) of the device. Return: descriptor, or -1 and errno */
AV_MUST_USE int av_cm_hooks_open(int flags);

/* Is it a descriptor of the device? Keeps errno. Async-signal-safe. */
AV_MUST_USE bool av_cm_hooks_is(int fd);

#endif
