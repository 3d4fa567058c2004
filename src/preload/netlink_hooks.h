/* SPDX-License-Identifier: MIT */
/* NETLINK_RDMA sockets of the program: what it asks, and who answers. */
#ifndef AV_PRELOAD_NETLINK_HOOKS_H
#define AV_PRELOAD_NETLINK_HOOKS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/nlmsg.h"

/* The kernel's own RDMA devices, which a program goes on to see beside ours. */

/*
 * Have the kernel carry out a request, and add its answers, if there are any: of a dump, all parts
 * and an end. Return: false: the kernel has no RDMA devices; nothing was added
 */
AV_MUST_USE bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out);

#endif
