/* SPDX-License-Identifier: MIT */
/* What NETLINK_RDMA says of devices, their ports and the system. */
#ifndef AV_PRELOAD_NETLINK_DEVICE_H
#define AV_PRELOAD_NETLINK_DEVICE_H

#include "preload/netlink_request.h"

/* Each writes the answer to one kind of request. Return: 0 or -errno */
int av_nldev_device(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_devices(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_port(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_ports(const struct av_nldev_request *r, struct av_nl_out *out);

/* The counters of the sysfs folder "hw_counters". */
int av_nldev_counters(const struct av_nldev_request *r, struct av_nl_out *out);

int av_nldev_chardev(const struct av_nldev_request *r, struct av_nl_out *out);
int av_nldev_system(const struct av_nldev_request *r, struct av_nl_out *out);

/* Add a counter to a list of the type STAT_HWCOUNTERS. */
void av_nldev_put_counter(struct av_nl_out *out, const char *name, uint64_t value);

#endif
