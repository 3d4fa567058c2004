/* SPDX-License-Identifier: MIT */
/* The extended posting interface: ibv_create_qp_ex() and the ibv_wr_*() builders. ibv_wr_post(3).
 */
#ifndef AV_VERBS_IBV_QP_EX_H
#define AV_VERBS_IBV_QP_EX_H

#include <infiniband/verbs.h>

struct ibv_qp *av_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

#endif
