/* SPDX-License-Identifier: MIT */
/* What many tests make by the experimental verbs; each ends the program if it cannot be had. */
#ifndef TEST_EXP_OBJECTS_H
#define TEST_EXP_OBJECTS_H

#include <infiniband/verbs_exp.h>

#include "lib/node.h"

/* A region as ibv_exp_reg_mr() makes it. */
struct ibv_mr *exp_need_mr(struct ibv_exp_reg_mr_in in);

/*
 * RC queue pair @qp of the node, in RESET. @init: what is special; the rest is filled in: CQs 0 and
 * 1, the usual capacities (each unless given), and the protection domain. What the verb grants is
 * there afterwards.
 */
void exp_need_rc(struct node *n, int qp, struct ibv_exp_qp_init_attr *init);

#endif
