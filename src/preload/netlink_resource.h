/* SPDX-License-Identifier: MIT */
/* Requests of the kind RDMA_NL_NLDEV, and what is said of devices, ports and objects. */
#ifndef AV_PRELOAD_NETLINK_RESOURCE_H
#define AV_PRELOAD_NETLINK_RESOURCE_H

#include <rdma/rdma_netlink.h>
#include <stddef.h>

#include "base/nlmsg.h"
#include "device/device.h"

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

#endif
