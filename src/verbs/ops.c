/* SPDX-License-Identifier: MIT */
/* Every member of the tables is set: what the device lacks returns the documented errno value. */
#include "verbs/ops.h"

#include <string.h>

#include "verbs/fail.h"
#include "verbs/post.h"

/* Verbs that this device lacks. */
#define NO_INT(verb, name, ...)                                   \
	static int name(__VA_ARGS__)                              \
	{                                                         \
		return av_fail_errno(AV_VERB_##verb, EOPNOTSUPP); \
	}
#define NO_PTR(verb, type, name, ...)                            \
	static type *name(__VA_ARGS__)                           \
	{                                                        \
		return av_fail_null(AV_VERB_##verb, EOPNOTSUPP); \
	}

NO_INT(READ_COUNTERS, no_read_counters, struct ibv_counters *counters, uint64_t *values,
       uint32_t count, uint32_t flags)
NO_INT(ATTACH_COUNTERS_POINT_FLOW, no_attach_counters, struct ibv_counters *counters,
       struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
NO_PTR(CREATE_COUNTERS, struct ibv_counters, no_create_counters, struct ibv_context *context,
       struct ibv_counters_init_attr *attr)
NO_INT(DESTROY_COUNTERS, no_destroy_counters, struct ibv_counters *counters)
NO_INT(MODIFY_FLOW_ACTION_ESP, no_modify_flow_action_esp, struct ibv_flow_action *action,
       struct ibv_flow_action_esp_attr *attr)
NO_INT(DESTROY_FLOW_ACTION, no_destroy_flow_action, struct ibv_flow_action *action)
NO_PTR(CREATE_FLOW_ACTION_ESP, struct ibv_flow_action, no_create_flow_action_esp,
       struct ibv_context *context, struct ibv_flow_action_esp_attr *attr)
NO_INT(MODIFY_QP_RATE_LIMIT, no_modify_qp_rate_limit, struct ibv_qp *qp,
       struct ibv_qp_rate_limit_attr *attr)
NO_INT(POST_SRQ_OPS, no_post_srq_ops, struct ibv_srq *srq, struct ibv_ops_wr *op,
       struct ibv_ops_wr **bad_op)
NO_INT(DESTROY_RWQ_IND_TABLE, no_destroy_rwq_ind_table, struct ibv_rwq_ind_table *table)
NO_PTR(CREATE_RWQ_IND_TABLE, struct ibv_rwq_ind_table, no_create_rwq_ind_table,
       struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr)
NO_INT(DESTROY_WQ, no_destroy_wq, struct ibv_wq *wq)
NO_INT(MODIFY_WQ, no_modify_wq, struct ibv_wq *wq, struct ibv_wq_attr *attr)
NO_PTR(CREATE_WQ, struct ibv_wq, no_create_wq, struct ibv_context *context,
       struct ibv_wq_init_attr *attr)
NO_INT(DESTROY_FLOW, no_destroy_flow, struct ibv_flow *flow)
NO_PTR(CREATE_FLOW, struct ibv_flow, no_create_flow, struct ibv_qp *qp, struct ibv_flow_attr *attr)
NO_PTR(NONE, void, no_compat, void)

static void no_placeholder(void)
{
}

static void fill_extended(struct verbs_context *v)
{
	v->query_port = av_query_port;
	v->query_device_ex = av_query_device_ex;
	v->advise_mr = av_advise_mr;
	v->alloc_null_mr = av_alloc_null_mr;
	v->read_counters = no_read_counters;
	v->attach_counters_point_flow = no_attach_counters;
	v->create_counters = no_create_counters;
	v->destroy_counters = no_destroy_counters;
	v->reg_dm_mr = av_reg_dm_mr;
	v->alloc_dm = av_alloc_dm;
	v->free_dm = av_free_dm;
	v->modify_flow_action_esp = no_modify_flow_action_esp;
	v->destroy_flow_action = no_destroy_flow_action;
	v->create_flow_action_esp = no_create_flow_action_esp;
	v->modify_qp_rate_limit = no_modify_qp_rate_limit;
	v->alloc_parent_domain = av_alloc_parent_domain;
	v->dealloc_td = av_dealloc_td;
	v->alloc_td = av_alloc_td;
	v->modify_cq = av_modify_cq;
	v->post_srq_ops = no_post_srq_ops;
	v->destroy_rwq_ind_table = no_destroy_rwq_ind_table;
	v->create_rwq_ind_table = no_create_rwq_ind_table;
	v->destroy_wq = no_destroy_wq;
	v->modify_wq = no_modify_wq;
	v->create_wq = no_create_wq;
	v->query_rt_values = av_query_rt_values;
	v->create_cq_ex = av_create_cq_ex;
	v->ibv_destroy_flow = no_destroy_flow;
	v->ABI_placeholder2 = no_placeholder;
	v->ibv_create_flow = no_create_flow;
	v->ABI_placeholder1 = no_placeholder;
	v->open_qp = av_open_qp;
	v->create_qp_ex = av_create_qp_ex;
	v->get_srq_num = av_get_srq_num;
	v->create_srq_ex = av_create_srq_ex;
	v->open_xrcd = av_open_xrcd;
	v->close_xrcd = av_close_xrcd;
}

/* Members that only programs older than the extended tables call; the others are set afterwards. */
static void fill_compat(struct ibv_context_ops *ops)
{
	void *(*const compat)(void) = no_compat;

	for (size_t at = 0; at < sizeof(*ops); at += sizeof(compat))
		memcpy((char *)ops + at, &compat, sizeof(compat));
	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = (ibv_query_port);
}

void av_ops_fill(struct verbs_context *verbs)
{
	struct ibv_context_ops *ops = &verbs->context.ops;

	fill_extended(verbs);
	fill_compat(ops);
	ops->alloc_mw = av_alloc_mw;
	ops->bind_mw = av_bind_mw;
	ops->dealloc_mw = av_dealloc_mw;
	ops->poll_cq = av_poll_cq;
	ops->req_notify_cq = av_req_notify_cq;
	ops->post_srq_recv = av_post_srq_recv;
	ops->post_send = av_post_send;
	ops->post_recv = av_post_recv;
}
