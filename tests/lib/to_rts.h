/* SPDX-License-Identifier: MIT */
/* The way of a queue pair to RTS, for those that are no node's (lib/node.h), and of every service.
 */
#ifndef TEST_TO_RTS_H
#define TEST_TO_RTS_H

#include <infiniband/verbs.h>

/* What a step to INIT, RTR or RTS has to be given, IBV_QP_STATE among it. */
int connect_mask(enum ibv_qp_type type, enum ibv_qp_state to);

/* The usual attributes of all three steps, towards queue pair @dest; any right. Tests change what
 * they want other. */
struct ibv_qp_attr connect_attr(uint32_t dest, const union ibv_gid *gid);

/* One step, from the state before @to. Return: errno value */
int connect_step(struct ibv_qp *qp, struct ibv_qp_attr attr, enum ibv_qp_state to);
/* All three, from RESET to RTS. Return: errno value */
int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr);

#endif
