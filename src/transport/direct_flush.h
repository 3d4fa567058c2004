/* SPDX-License-Identifier: MIT */
/* FLUSH: that what was written before is where everybody sees it. */
#ifndef AV_TRANSPORT_DIRECT_FLUSH_H
#define AV_TRANSPORT_DIRECT_FLUSH_H

#include "transport/direct_work.h"

/*
 * FLUSH, IBTA volume 1, release 1.5. What earlier requests of the queue pair wrote is in the
 * responder's memory when they are done, and its processors' caches are coherent: for global
 * visibility nothing is left to do but to be ordered behind them. Persistence is never granted, so
 * asking for it is refused with the right.
 */
av_operation av_direct_flush;

#endif
