/* SPDX-License-Identifier: MIT */
/* What does a request of the kind RDMA_NL_NLDEV say, and by which numbers are our devices named? */
#ifndef AV_PRELOAD_NETLINK_REQUEST_H
#define AV_PRELOAD_NETLINK_REQUEST_H

#include <rdma/rdma_netlink.h>

#include "base/nlmsg.h"
#include "device/device.h"

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

/* The attributes that every answer about a device begins with. */
void av_nldev_put_handle(struct av_nl_out *out, const struct av_device *dev);

#endif
