/* SPDX-License-Identifier: MIT */
/*
 * The queue-pair state machine: which transitions exist for which service, and which attribute-mask
 * bits each requires or permits. Pure functions. Source: IBTA volume 1, 10.3.1 and 11.2.5.2 (Modify
 * Queue Pair); ibv_modify_qp(3).
 */
#ifndef AV_QUEUE_QP_STATE_H
#define AV_QUEUE_QP_STATE_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#define AV_QP_STATE_N 7 /* IBV_QPS_RESET .. IBV_QPS_ERR */

struct av_qp_transition {
	bool valid;
	int required; /* enum ibv_qp_attr_mask bits besides IBV_QP_STATE */
	int optional;
};

/* The cell for one service and pair of states. Not valid for any other type or state. */
struct av_qp_transition av_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
					 enum ibv_qp_state to);

/*
 * Remove attributes that an XRC service does not have, but programs written for RC pass. They are
 * neither checked nor stored.
 */
int av_qp_own_mask(enum ibv_qp_type type, int attr_mask);

/*
 * May this attribute mask be applied to a QP in state @from? Without IBV_QP_STATE the transition is
 * @from -> @from. With IBV_QP_CUR_STATE, @cur (RTR, RTS, SQD or SQE) replaces @from. Does not check
 * the values of attributes. @to_out: the state afterwards; written only on success.
 * Return:  0, or EINVAL: no such transition, a required bit is missing, or a bit is not permitted
 */
int av_qp_check_modify(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state cur,
		       enum ibv_qp_state to, int attr_mask, enum ibv_qp_state *to_out);

#endif
