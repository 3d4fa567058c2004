/* SPDX-License-Identifier: MIT */
/*
 * Moving any queue pair to RTS, of any service type. lib/node.h does it for the queue pairs of a
 * node.
 */
#ifndef TEST_TO_RTS_H
#define TEST_TO_RTS_H

#include <infiniband/verbs.h>

/* The attributes that a step to INIT, RTR or RTS needs, including IBV_QP_STATE. */
int connect_mask(enum ibv_qp_type type, enum ibv_qp_state to);

/*
 * The usual attributes of all three steps, with all access rights, towards queue pair @dest. Tests
 * change what they need.
 */
struct ibv_qp_attr connect_attr(uint32_t dest, const union ibv_gid *gid);

/* Take one step, from the state before @to. Return: errno value. */
int connect_step(struct ibv_qp *qp, struct ibv_qp_attr attr, enum ibv_qp_state to);
/* Take all three steps, from RESET to RTS. Return: errno value. */
int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr);

#endif
