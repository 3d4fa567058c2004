/* SPDX-License-Identifier: MIT */
/*
 * Detect that a program changed the buffers of a send request that waited before it was executed.
 * For contexts that are watched for misuse (AV_WATCHED_MISUSE).
 *
 * Only the first AV_SEND_SUM_BYTES of a message are checked.
 */
#ifndef AV_TRANSPORT_SEND_SUM_H
#define AV_TRANSPORT_SEND_SUM_H

#include <stdint.h>

#include "queue/qp.h"

#define AV_SEND_SUM_BYTES 65536u

/*
 * The request at the head of an own queue has begun to wait, or is tried again.
 * Context: @exec is held.
 */
void av_send_sum_look(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/* How many requests of the own queue pair had their buffers changed. */
uint64_t av_send_sum_changes(const struct av_qp_ref *end);

/*
 * The segment ends.
 * Context: nothing is executed any more.
 */
void av_send_sum_end(struct av_seg *seg);

#endif
