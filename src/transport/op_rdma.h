/* SPDX-License-Identifier: MIT */
/* RDMA WRITE, RDMA READ and FLUSH: operations on the memory that the rkey names. */
#ifndef AV_TRANSPORT_OP_RDMA_H
#define AV_TRANSPORT_OP_RDMA_H

#include "transport/work.h"

av_operation av_op_write;
av_operation av_op_read;

/*
 * FLUSH, IBTA volume 1, release 1.5. What earlier requests of the queue pair wrote is in the
 * responder's memory when they are done, and its processors' caches are coherent: for global
 * visibility nothing is left to do but to be ordered behind them. Persistence is never granted, so
 * asking for it is refused with the right.
 */
av_operation av_op_flush;

/*
 * For requests that do more: copy to the memory that the rkey names, or only look whether that
 * could be done. The length is not 0; the requester's buffers have been translated, and the access
 * flags of the queue pair are the caller's to check. Context and return as an operation's.
 */
AV_MUST_USE enum av_fault av_op_write_bytes(struct av_work *w);
AV_MUST_USE enum av_fault av_op_write_check(struct av_work *w);

#endif
