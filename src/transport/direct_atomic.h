/* SPDX-License-Identifier: MIT */
/* Atomic operations on the responder's memory. */
#ifndef AV_TRANSPORT_DIRECT_ATOMIC_H
#define AV_TRANSPORT_DIRECT_ATOMIC_H

#include "memory/atomic_op.h"
#include "transport/direct_work.h"

av_operation av_direct_fetch_add;
av_operation av_direct_cmp_swap;

/* Operations whose operands lie behind the request. What a peer's ring holds there is looked at
 * once. */
av_operation av_direct_with_operands;

/*
 * ATOMIC WRITE, IBTA volume 1, release 1.5. What it writes travels with it, so the requester's
 * memory comes first, as with a WRITE.
 */
av_operation av_direct_atomic_write;

/**
 * av_direct_operand() - one atomic operation on the operand that a key names
 * @req: the operand; its length is the operation's size
 * @old: out, the original value; NULL to only look whether the operation is permitted
 *
 * Context and return as an operation's; on anything but AV_FAULT_NONE, and if it has to wait, the
 * operand is as it was.
 */
AV_MUST_USE enum av_fault av_direct_operand(struct av_work *w, const struct av_mem_request *req,
					    const struct av_atomic *atomic, struct av_operand *old);

#endif
