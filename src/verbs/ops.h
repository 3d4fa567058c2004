/* SPDX-License-Identifier: MIT */
/* The verbs that programs reach through the dispatch tables of <infiniband/verbs.h>. */
#ifndef AV_VERBS_OPS_H
#define AV_VERBS_OPS_H

#include <infiniband/verbs.h>

/* Fill in every member. */
void av_ops_fill(struct verbs_context *verbs);

/* As their manual pages say, for our objects only; ibv_qp_ex.h has those that post. */
int av_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		  size_t size);
int av_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size);
int av_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

struct ibv_td *av_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int av_dealloc_td(struct ibv_td *td);
struct ibv_pd *av_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr);
struct ibv_xrcd *av_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int av_close_xrcd(struct ibv_xrcd *xrcd);

struct ibv_mr *av_alloc_null_mr(struct ibv_pd *pd);
int av_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t count);
struct ibv_dm *av_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int av_free_dm(struct ibv_dm *dm);
struct ibv_mr *av_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned int access);
struct ibv_mw *av_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int av_dealloc_mw(struct ibv_mw *mw);
int av_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

struct ibv_cq_ex *av_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int av_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int av_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int av_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_srq *av_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init);
int av_get_srq_num(struct ibv_srq *srq, uint32_t *number);
int av_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
struct ibv_qp *av_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

#endif
