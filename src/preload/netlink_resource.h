/* SPDX-License-Identifier: MIT */
/* What NETLINK_RDMA says of the objects that exist, in all processes. */
#ifndef AV_PRELOAD_NETLINK_RESOURCE_H
#define AV_PRELOAD_NETLINK_RESOURCE_H

#include "preload/netlink_request.h"

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
