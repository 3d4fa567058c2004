/* SPDX-License-Identifier: MIT */
/*
 * The end of a queue pair's receives while a stopped peer holds its right @resp: nobody waits for
 * that peer. The state changes at once, and the receives are flushed when the right is free.
 */
#ifndef AV_TRANSPORT_OVERDUE_H
#define AV_TRANSPORT_OVERDUE_H

#include "queue/qp.h"

/* When to look again for a right that a stopped peer holds. */
#define AV_OVERDUE_NS 50000000u

/* Put the queue pair into the error state. Context: no @resp held; waits AV_STUCK_NS at most. */
void av_overdue_error(const struct av_qp_end *end);

/* Flush the receives of an own queue pair in the error state. Context: the same. */
void av_overdue_flush(const struct av_qp_end *end);

/*
 * Flush what is overdue, if the right is free by now. The timer comes by until it is.
 * Context: the right @exec is held, no @resp; does not wait.
 */
void av_overdue_look(const struct av_qp_end *end);

#endif
