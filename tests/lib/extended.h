/* SPDX-License-Identifier: MIT */
/* Extended and tunneled atomics of a node (lib/node.h), described as the model (lib/atomic_model.h)
 * has them.
 */
#ifndef TEST_EXTENDED_H
#define TEST_EXTENDED_H

#include <anyverbs/tunneled_atomic.h>
#include <infiniband/verbs_exp.h>

#include "lib/atomic_model.h"
#include "lib/node.h"

/* A queue pair in RESET whose atomics have operands of up to that many bytes. Return: errno value
 */
int extended_create_qp(struct node *n, int qp, enum ibv_qp_type type, uint32_t max_operand);

/*
 * The request for an operation, CMP_SWAP or ADD, on memory of a peer. @masked: by the opcodes that
 * have masks; else by the plain ones, and the masks of CMP_SWAP are all ones, the boundary of ADD
 * is 0. Refers to
 * @atomic where operands are longer than 8 bytes.
 */
void extended_request(struct ibv_exp_send_wr *wr, const struct av_atomic *atomic, bool masked,
		      uint64_t addr, uint32_t rkey, struct ibv_sge *sge, int num_sge);

/* Post one request, signalled, and wait for its completion, which must be the request's. */
struct ibv_exp_wc extended_do(struct node *n, int qp, struct ibv_exp_send_wr *wr);

/* The command for an operation, @offset bytes from where the WRITE goes. */
struct anyverbs_tunneled_atomic tunneled_command(const struct av_atomic *atomic, uint64_t offset);

#endif
