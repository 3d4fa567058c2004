/* SPDX-License-Identifier: MIT */
/* May queue pairs use packets, or have they to? Context: any */
#ifndef AV_TRANSPORT_WIRE_ALLOWED_H
#define AV_TRANSPORT_WIRE_ALLOWED_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#include "segment/segment.h"

/* May anything go by packets? No with ANYVERBS_TRANSPORT=direct. */
bool av_wire_is_allowed(void);

/* Does everything go by packets (ANYVERBS_TRANSPORT=wire)? */
bool av_wire_is_forced(void);

/* May queue pairs of that context? An InfiniBand link has no packets. */
bool av_wire_is_possible(const struct av_seg *seg);

/* May a connection of that context with that address vector? */
bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah);

#endif
