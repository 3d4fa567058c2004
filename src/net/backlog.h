/* SPDX-License-Identifier: MIT */
/*
 * Messages of management that another process owns and has no room for now: they wait here. A
 * process's socket takes only a few (net.unix.max_dgram_qlen), and a peer that ends thousands of
 * connections says everything again at the same moments. What is lost once would be lost each time.
 *
 * Context of all: by who receives, or nobody does (av_inbound_pause())
 */
#ifndef AV_NET_BACKLOG_H
#define AV_NET_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/own_fd.h"
#include "net/cut.h"

/*
 * @f: wakes the thread that calls av_backlog_again() from time to time, if another one has received
 * the first that waits. Set before the first packet comes.
 */
void av_backlog_wake_by(void (*f)(void));

/*
 * av_astray_pass(), but what does not fit waits for av_backlog_again(), and what comes behind it
 * waits, too. What waits for long is lost, and so is what there is no memory for.
 */
void av_backlog_pass(const struct av_own_fd *own, uint32_t owner, const struct av_cut *cut);

/* Pass on what waits, as far as it fits. */
void av_backlog_again(const struct av_own_fd *own);

/* Does anything wait? Context: any */
bool av_backlog_waits(void);

/* What waits is lost. */
void av_backlog_drop(void);

/* In a forked child: what waits is the parent's. */
void av_backlog_forked(void);

#endif
