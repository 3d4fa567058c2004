/* SPDX-License-Identifier: MIT */
/* What many tests create by the experimental verbs. Each function ends the program on failure. */
#ifndef TEST_EXP_OBJECTS_H
#define TEST_EXP_OBJECTS_H

#include <infiniband/verbs_exp.h>

#include "lib/node.h"

/* Register a region by ibv_exp_reg_mr(). */
struct ibv_mr *exp_need_mr(struct ibv_exp_reg_mr_in in);

/*
 * Create RC queue pair @qp of the node, in RESET. @init: only what is special. The rest is filled
 * in: CQs 0 and 1, the protection domain, and the usual capacities where none are given. @init then
 * contains what the verb granted.
 */
void exp_need_rc(struct node *n, int qp, struct ibv_exp_qp_init_attr *init);

#endif
