/* SPDX-License-Identifier: MIT */
/* Requests of the kind RDMA_NL_NLDEV, and what is said of devices, ports and objects. */
#ifndef AV_PRELOAD_NETLINK_RESOURCE_H
#define AV_PRELOAD_NETLINK_RESOURCE_H

#include <rdma/rdma_netlink.h>

#include "base/nlmsg.h"
#include "device/device.h"

/* What does a request of the kind RDMA_NL_NLDEV say, and by which numbers are our devices named? */

struct av_nldev_request {
	const struct nlmsghdr *header;
	unsigned int command;				/* enum rdma_nldev_command, unchecked */
	const struct nlattr *attr[RDMA_NLDEV_ATTR_MAX]; /* numbers have their four bytes */
	const struct av_device *dev;			/* ours that it names; NULL: none */
};

/* Return: 0, or -EINVAL as the kernel: a number is too short */
AV_MUST_USE int av_nldev_parse(const struct nlmsghdr *header, struct av_nldev_request *r);

static inline bool av_nldev_is_dump(const struct av_nldev_request *r)
{
	return r->header->nlmsg_flags & NLM_F_DUMP;
}

/* What NETLINK_RDMA says of devices, their ports and the system. */

/* Each writes the answer to one kind of request. Return: 0 or -errno */
int av_nldev_device(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_devices(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_port(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_ports(const struct av_nldev_request *r, struct av_nl_out *out);

/* The counters of the sysfs folder "hw_counters". */
int av_nldev_counters(const struct av_nldev_request *r, struct av_nl_out *out);

int av_nldev_chardev(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_system(const struct av_nldev_request *r, struct av_nl_out *out);

/* What NETLINK_RDMA says of the objects that exist, in all processes. */

/* How many objects of each kind: of one device, of all. Return: 0 or -errno */
int av_nldev_summary(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_summaries(const struct av_nldev_request *r, struct av_nl_out *out);

/* The objects of the kind that the command names: the one that the request names, or all. */
int av_nldev_resource(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_resources(const struct av_nldev_request *r, struct av_nl_out *out);

/*
 * Counters of objects of the kind that STAT_RES names: page faults of regions that are on demand,
 * as mlx5 has them, and nothing of queue pairs, to which no counters can be bound.
 */
int av_nldev_object_counters(const struct av_nldev_request *r, struct av_nl_out *out);

#endif
