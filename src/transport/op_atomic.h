/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations on the responder's memory: requested as such, or tunneled. Tunneled operations
 * are commands in the payload of an RDMA WRITE to a region of tunneled atomics.
 * include/anyverbs/tunneled_atomic.h has their encoding and what it promises.
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

/*
 * Operations whose operands lie behind the request in the ring. They are copied before they are
 * checked, since a peer may change its ring meanwhile.
 */
av_operation av_op_with_operands;

/*
 * ATOMIC WRITE. Its operand is copied from the requester's memory first, as with a WRITE.
 * Source: IBTA volume 1, release 1.5.
 */
av_operation av_op_atomic_write;

/**
 * av_op_operand() - execute one atomic operation on the operand that a key names
 * @req: the operand; its length is the operation's size
 * @old: out, the original value; NULL: only check whether the operation is permitted
 *
 * Context and return as an operation's. The operand is unchanged unless the result is AV_FAULT_NONE
 * and nothing has to wait.
 */
AV_MUST_USE enum av_fault av_op_operand(struct av_work *w, const struct av_mem_request *req,
					const struct av_atomic *atomic, struct av_operand *old);

/**
 * av_op_tunneled() - execute the commands in the payload, or only check them
 * @apply: false: only check
 *
 * The payload is read once. All commands are checked before the first is executed. The requester's
 * buffers must be translated; before the first command they are released and emptied. Context and
 * return as an operation's. AV_FAULT_REM_NO_COMMAND: the payload is no list of commands
 */
AV_MUST_USE enum av_fault av_op_tunneled(struct av_work *w, bool apply);

/*
 * May a payload have this length?
 * Return:  the number of commands in it, or 0
 */
unsigned int av_tunnel_count(uint64_t bytes);

/*
 * Decode a command.
 * Return:  false if it is not valid
 */
AV_MUST_USE bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *command,
				  struct av_atomic *atomic);

#endif
