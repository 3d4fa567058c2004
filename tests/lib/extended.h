/* SPDX-License-Identifier: MIT */
/*
 * Extended and tunneled atomics of a node (lib/node.h), described in terms of the model
 * (lib/atomic_model.h).
 */
#ifndef TEST_EXTENDED_H
#define TEST_EXTENDED_H

#include <anyverbs/tunneled_atomic.h>
#include <infiniband/verbs_exp.h>

#include "lib/atomic_model.h"
#include "lib/node.h"

/*
 * Create a queue pair in RESET for atomics with operands of up to @max_operand bytes. Return: errno
 * value.
 */
int extended_create_qp(struct node *n, int qp, enum ibv_qp_type type, uint32_t max_operand);

/*
 * Build the request for CMP_SWAP or ADD on a peer's memory. @masked: use the opcodes with masks;
 * otherwise the plain ones, which require CMP_SWAP masks of all ones and an ADD boundary of 0.
 * Refers to @atomic if operands are longer than 8 bytes.
 */
void extended_request(struct ibv_exp_send_wr *wr, const struct av_atomic *atomic, bool masked,
		      uint64_t addr, uint32_t rkey, struct ibv_sge *sge, int num_sge);

/* Post one signalled request and wait for its completion. */
struct ibv_exp_wc extended_do(struct node *n, int qp, struct ibv_exp_send_wr *wr);

/* The tunneled command for an operation, @offset bytes from the WRITE's address. */
struct anyverbs_tunneled_atomic tunneled_command(const struct av_atomic *atomic, uint64_t offset);

#endif
