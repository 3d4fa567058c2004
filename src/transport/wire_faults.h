/* SPDX-License-Identifier: MIT */
/* Whether anything travels in packets, and faults on demand at those. */
#ifndef AV_TRANSPORT_WIRE_FAULTS_H
#define AV_TRANSPORT_WIRE_FAULTS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "net/net.h"
#include "segment/segment.h"

/* May queue pairs use packets, or have they to? Context: any */

/* May anything go by packets? No with ANYVERBS_TRANSPORT=direct. */
bool av_wire_is_allowed(void);

/* Does everything go by packets (ANYVERBS_TRANSPORT=wire)? */
bool av_wire_is_forced(void);

/* May queue pairs of that context? An InfiniBand link has no packets. */
bool av_wire_is_possible(const struct av_seg *seg);

/* May a connection of that context with that address vector? */
bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah);

/*
 * Faults on demand at packets: one that arrives is dropped, damaged, doubled, or overtaken by
 * others. What becomes of it then is what becomes of any.
 */

/*
 * A packet has come to a queue pair of this own, watched context.
 * Return: true: it has been seen to, and so have those that it has overtaken. False: no fault
 * strikes it. Context: within the receiver; no right held
 */
AV_MUST_USE bool av_wire_faults_strike(struct av_seg *seg, const struct av_net_packet *packet);

/* No packet strikes this context any more: it is being closed. Context: no lock held */
void av_wire_faults_end(struct av_seg *seg);

/*
 * The timer's look: packets that waited for later ones, and none came. Context: the timer thread,
 * which holds nothing. Return: when to look again
 */
uint64_t av_wire_faults_look(struct av_seg *seg);

#endif
