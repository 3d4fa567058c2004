/* SPDX-License-Identifier: MIT */
/* What comes in, and who gets it. */
#ifndef AV_NET_INBOUND_H
#define AV_NET_INBOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "net/gro_split.h"
#include "net/net.h"

/*
 * Messages of management that another process owns and has no room for now: they wait here. A
 * process's socket takes only a few (net.unix.max_dgram_qlen), and a peer that ends thousands of
 * connections says everything again at the same moments. What is lost once would be lost each time.
 *
 * Context of all: by who receives, or nobody does (av_inbound_pause())
 */

/*
 * @f: wakes the thread that calls backlog_again() from time to time, if another one has received
 * the first that waits. Set before the first packet comes.
 */
void av_backlog_wake_by(void (*f)(void));

/* Does anything wait? Context: any */
bool av_backlog_waits(void);

/* What waits is lost. */
void av_backlog_drop(void);

/* In a forked child: what waits is the parent's. */
void av_backlog_forked(void);

/* Receiving: what comes in by the sockets, and who gets it. */

/* Have buffers, once for the life of the process. Waits for who receives. Return: 0 or -ENOMEM */
AV_MUST_USE int av_inbound_prepare(void);

/*
 * Take what has come, and hand it to the receiver. Never waits for packets. @wait: for another
 * thread that is doing so; @taken: out, datagrams; @drained: out, nothing is left, as far as is
 * known. Return: false: another thread is doing so
 */
bool av_inbound_take(bool wait, unsigned int *taken, bool *drained);

/* Show datagrams to the receiver's captures. */
void av_inbound_seen(const struct av_net_seen *seen);

/* How many times av_net_poll() has taken packets. */
unsigned int av_inbound_polled(void);

/* When it has looked for some last, CLOCK_MONOTONIC; 0: never */
uint64_t av_inbound_looked_ns(void);

/*
 * Nobody receives until av_inbound_resume(): sockets can be closed. Waits for who does. Context:
 * not within the receiver
 */
void av_inbound_pause(void);
void av_inbound_resume(void);

/* In a forked child, whatever locks were held. */
void av_inbound_forked(void);

#endif
