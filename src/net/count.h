/* SPDX-License-Identifier: MIT */
/* Counting what becomes of packets. */
#ifndef AV_NET_COUNT_H
#define AV_NET_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

#include "net/net.h"

extern _Atomic uint64_t av_net_counter[AV_NET_COUNTS] __attribute__((visibility("hidden")));

static inline void av_net_count(enum av_net_count what, uint64_t packets)
{
	atomic_fetch_add_explicit(&av_net_counter[what], packets, memory_order_relaxed);
}

#endif
