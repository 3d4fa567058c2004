/* SPDX-License-Identifier: MIT */
/* Which answer does a request on a NETLINK_RDMA socket get? */
#ifndef AV_PRELOAD_NETLINK_ANSWER_H
#define AV_PRELOAD_NETLINK_ANSWER_H

#include <stddef.h>

#include "base/nlmsg.h"

/* Write the answers to all requests of a datagram (aligned to 4 bytes). */
void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out);

#endif
