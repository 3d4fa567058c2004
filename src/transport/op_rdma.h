/* SPDX-License-Identifier: MIT */
/* RDMA WRITE, RDMA READ and FLUSH: operations on the memory that the rkey names. */
#ifndef AV_TRANSPORT_OP_RDMA_H
#define AV_TRANSPORT_OP_RDMA_H

#include "transport/work.h"

av_operation av_op_write;
av_operation av_op_read;

/*
 * FLUSH. Earlier requests of the queue pair have already written to the responder's memory, and
 * processor caches are coherent. So global visibility only needs this request to be ordered behind
 * them. Persistence is never granted: a FLUSH that asks for it is refused for want of the access
 * right.
 * Source: IBTA volume 1, release 1.5.
 */
av_operation av_op_flush;

/*
 * Copy to the memory that the rkey names; without @copy, only check whether that could be done. A
 * part of larger operations. The length is not 0, and the requester's buffers have been translated.
 * The caller checks the queue pair's access flags. Context and return as an operation's.
 */
AV_MUST_USE enum av_fault av_op_write_bytes(struct av_work *w, bool copy);

#endif
