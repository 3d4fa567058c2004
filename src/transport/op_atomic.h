/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations on the responder's memory; and tunneled ones, the commands in the payload of an
 * RDMA WRITE to a region of tunneled atomics. include/anyverbs/tunneled_atomic.h has their encoding
 * and what it promises.
 */
#ifndef AV_TRANSPORT_OP_ATOMIC_H
#define AV_TRANSPORT_OP_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>
#include <anyverbs/tunneled_atomic.h>

#include "memory/atomic_op.h"
#include "transport/work.h"

av_operation av_op_fetch_add;
av_operation av_op_cmp_swap;

/* Operations whose operands lie behind the request. What a peer's ring holds there is looked at
 * once. */
av_operation av_op_with_operands;

/*
 * ATOMIC WRITE, IBTA volume 1, release 1.5. What it writes travels with it, so the requester's
 * memory comes first, as with a WRITE.
 */
av_operation av_op_atomic_write;

/**
 * av_op_operand() - one atomic operation on the operand that a key names
 * @req: the operand; its length is the operation's size
 * @old: out, the original value; NULL to only look whether the operation is permitted
 *
 * Context and return as an operation's; on anything but AV_FAULT_NONE, and if it has to wait, the
 * operand is as it was.
 */
AV_MUST_USE enum av_fault av_op_operand(struct av_work *w, const struct av_mem_request *req,
					const struct av_atomic *atomic, struct av_operand *old);

/**
 * av_op_tunneled() - carry out the commands in the payload, or only look whether that could be
 * done
 *
 * The payload is read once, and nothing is done before all of it has been looked at. The
 * requester's buffers have been translated, and are given back as soon as something is done: then
 * they are empty. Context and return as an operation's; AV_FAULT_REM_NO_COMMAND: the payload is no
 * list of commands
 */
AV_MUST_USE enum av_fault av_op_tunneled(struct av_work *w, bool apply);

/* May a payload be that long? Return: the number of commands in it, or 0. */
unsigned int av_tunnel_count(uint64_t bytes);

/* What a command says. Return: false if it is none. */
AV_MUST_USE bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *command,
				  struct av_atomic *atomic);

#endif
