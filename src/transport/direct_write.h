/* SPDX-License-Identifier: MIT */
/* RDMA WRITE: the requester's bytes to the memory that the rkey names. */
#ifndef AV_TRANSPORT_DIRECT_WRITE_H
#define AV_TRANSPORT_DIRECT_WRITE_H

#include "transport/direct_work.h"

av_operation av_direct_write;

/*
 * For requests that do more: copy to the memory that the rkey names, or only look whether that
 * could be done. The length is not 0; the requester's buffers have been translated, and the access
 * flags of the queue pair are the caller's to check. Context and return as an operation's.
 */
AV_MUST_USE enum av_fault av_direct_write_bytes(struct av_work *w);
AV_MUST_USE enum av_fault av_direct_write_check(struct av_work *w);

#endif
