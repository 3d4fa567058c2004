/* SPDX-License-Identifier: MIT */
/* The verbs that can refuse, for records: a number and a name each, in the order of their names. */
#ifndef AV_OBSERVE_VERB_H
#define AV_OBSERVE_VERB_H

/* clang-format off */
#define AV_VERBS(X) \
	X(CQ_WAIT,                      "anyverbs_cq_wait") \
	X(ADVISE_MR,                    "ibv_advise_mr") \
	X(ALLOC_BUF,                    "ibv_alloc_buf") \
	X(ALLOC_DM,                     "ibv_alloc_dm") \
	X(ALLOC_DMAH,                   "ibv_alloc_dmah") \
	X(ALLOC_MW,                     "ibv_alloc_mw") \
	X(ALLOC_NULL_MR,                "ibv_alloc_null_mr") \
	X(ALLOC_PARENT_DOMAIN,          "ibv_alloc_parent_domain") \
	X(ALLOC_PD,                     "ibv_alloc_pd") \
	X(ALLOC_TD,                     "ibv_alloc_td") \
	X(ATTACH_COUNTERS_POINT_FLOW,   "ibv_attach_counters_point_flow") \
	X(ATTACH_MCAST,                 "ibv_attach_mcast") \
	X(BIND_MW,                      "ibv_bind_mw") \
	X(CLOSE_XRCD,                   "ibv_close_xrcd") \
	X(CREATE_AH,                    "ibv_create_ah") \
	X(CREATE_COMP_CHANNEL,          "ibv_create_comp_channel") \
	X(CREATE_COMP_CNTR,             "ibv_create_comp_cntr") \
	X(CREATE_COUNTERS,              "ibv_create_counters") \
	X(CREATE_CQ,                    "ibv_create_cq") \
	X(CREATE_CQ_EX,                 "ibv_create_cq_ex") \
	X(CREATE_FLOW,                  "ibv_create_flow") \
	X(CREATE_FLOW_ACTION_ESP,       "ibv_create_flow_action_esp") \
	X(CREATE_QP,                    "ibv_create_qp") \
	X(CREATE_QP_EX,                 "ibv_create_qp_ex") \
	X(CREATE_RWQ_IND_TABLE,         "ibv_create_rwq_ind_table") \
	X(CREATE_SRQ,                   "ibv_create_srq") \
	X(CREATE_SRQ_EX,                "ibv_create_srq_ex") \
	X(CREATE_WQ,                    "ibv_create_wq") \
	X(DEALLOC_DMAH,                 "ibv_dealloc_dmah") \
	X(DEALLOC_MW,                   "ibv_dealloc_mw") \
	X(DEALLOC_PD,                   "ibv_dealloc_pd") \
	X(DEALLOC_TD,                   "ibv_dealloc_td") \
	X(DEREG_MR,                     "ibv_dereg_mr") \
	X(DESTROY_AH,                   "ibv_destroy_ah") \
	X(DESTROY_COMP_CHANNEL,         "ibv_destroy_comp_channel") \
	X(DESTROY_COMP_CNTR,            "ibv_destroy_comp_cntr") \
	X(DESTROY_COUNTERS,             "ibv_destroy_counters") \
	X(DESTROY_CQ,                   "ibv_destroy_cq") \
	X(DESTROY_FLOW,                 "ibv_destroy_flow") \
	X(DESTROY_FLOW_ACTION,          "ibv_destroy_flow_action") \
	X(DESTROY_QP,                   "ibv_destroy_qp") \
	X(DESTROY_RWQ_IND_TABLE,        "ibv_destroy_rwq_ind_table") \
	X(DESTROY_SRQ,                  "ibv_destroy_srq") \
	X(DESTROY_WQ,                   "ibv_destroy_wq") \
	X(DETACH_MCAST,                 "ibv_detach_mcast") \
	X(DM_EXPORT_DMABUF_FD,          "ibv_dm_export_dmabuf_fd") \
	X(EXP_ALLOC_DM,                 "ibv_exp_alloc_dm") \
	X(EXP_ALLOC_MKEY_LIST_MEMORY,   "ibv_exp_alloc_mkey_list_memory") \
	X(EXP_ARM_DCT,                  "ibv_exp_arm_dct") \
	X(EXP_BIND_MW,                  "ibv_exp_bind_mw") \
	X(EXP_CREATE_CQ,                "ibv_exp_create_cq") \
	X(EXP_CREATE_DCT,               "ibv_exp_create_dct") \
	X(EXP_CREATE_MR,                "ibv_exp_create_mr") \
	X(EXP_CREATE_QP,                "ibv_exp_create_qp") \
	X(EXP_CREATE_RES_DOMAIN,        "ibv_exp_create_res_domain") \
	X(EXP_CREATE_SRQ,               "ibv_exp_create_srq") \
	X(EXP_DEALLOC_MKEY_LIST_MEMORY, "ibv_exp_dealloc_mkey_list_memory") \
	X(EXP_DESTROY_DCT,              "ibv_exp_destroy_dct") \
	X(EXP_DESTROY_RES_DOMAIN,       "ibv_exp_destroy_res_domain") \
	X(EXP_FREE_DM,                  "ibv_exp_free_dm") \
	X(EXP_GET_PROVIDER_FUNC,        "ibv_exp_get_provider_func") \
	X(EXP_MEMCPY_DM,                "ibv_exp_memcpy_dm") \
	X(EXP_MODIFY_CQ,                "ibv_exp_modify_cq") \
	X(EXP_MODIFY_QP,                "ibv_exp_modify_qp") \
	X(EXP_OPEN_DEVICE,              "ibv_exp_open_device") \
	X(EXP_POLL_CQ,                  "ibv_exp_poll_cq") \
	X(EXP_POLL_DC_INFO,             "ibv_exp_poll_dc_info") \
	X(EXP_POST_SEND,                "ibv_exp_post_send") \
	X(EXP_POST_TASK,                "ibv_exp_post_task") \
	X(EXP_PREFETCH_MR,              "ibv_exp_prefetch_mr") \
	X(EXP_QUERY_DCT,                "ibv_exp_query_dct") \
	X(EXP_QUERY_DEVICE,             "ibv_exp_query_device") \
	X(EXP_QUERY_GID_ATTR,           "ibv_exp_query_gid_attr") \
	X(EXP_QUERY_INTF,               "ibv_exp_query_intf") \
	X(EXP_QUERY_MKEY,               "ibv_exp_query_mkey") \
	X(EXP_QUERY_PORT,               "ibv_exp_query_port") \
	X(EXP_QUERY_VALUES,             "ibv_exp_query_values") \
	X(EXP_REG_MR,                   "ibv_exp_reg_mr") \
	X(EXP_REG_SHARED_MR,            "ibv_exp_reg_shared_mr") \
	X(EXP_RELEASE_INTF,             "ibv_exp_release_intf") \
	X(EXP_REREG_MR,                 "ibv_exp_rereg_mr") \
	X(EXP_SETENV,                   "ibv_exp_setenv") \
	X(EXP_USE_PRIV_ENV,             "ibv_exp_use_priv_env") \
	X(EXPORT_BUF_DMABUF_FD,         "ibv_export_buf_dmabuf_fd") \
	X(FREE_DM,                      "ibv_free_dm") \
	X(GET_DEVICE_LIST,              "ibv_get_device_list") \
	X(GET_PKEY_INDEX,               "ibv_get_pkey_index") \
	X(GET_SRQ_NUM,                  "ibv_get_srq_num") \
	X(IMPORT_DEVICE,                "ibv_import_device") \
	X(IMPORT_DM,                    "ibv_import_dm") \
	X(IMPORT_MR,                    "ibv_import_mr") \
	X(IMPORT_PD,                    "ibv_import_pd") \
	X(INC_COMP_CNTR,                "ibv_inc_comp_cntr") \
	X(INC_ERR_COMP_CNTR,            "ibv_inc_err_comp_cntr") \
	X(INIT_AH_FROM_WC,              "ibv_init_ah_from_wc") \
	X(MEMCPY_FROM_DM,               "ibv_memcpy_from_dm") \
	X(MEMCPY_TO_DM,                 "ibv_memcpy_to_dm") \
	X(MODIFY_CQ,                    "ibv_modify_cq") \
	X(MODIFY_FLOW_ACTION_ESP,       "ibv_modify_flow_action_esp") \
	X(MODIFY_QP,                    "ibv_modify_qp") \
	X(MODIFY_QP_RATE_LIMIT,         "ibv_modify_qp_rate_limit") \
	X(MODIFY_SRQ,                   "ibv_modify_srq") \
	X(MODIFY_WQ,                    "ibv_modify_wq") \
	X(OPEN_DEVICE,                  "ibv_open_device") \
	X(OPEN_QP,                      "ibv_open_qp") \
	X(OPEN_XRCD,                    "ibv_open_xrcd") \
	X(POLL_CQ,                      "ibv_poll_cq") \
	X(POST_RECV,                    "ibv_post_recv") \
	X(POST_SEND,                    "ibv_post_send") \
	X(POST_SRQ_OPS,                 "ibv_post_srq_ops") \
	X(POST_SRQ_RECV,                "ibv_post_srq_recv") \
	X(QP_ATTACH_COMP_CNTR,          "ibv_qp_attach_comp_cntr") \
	X(QUERY_COMP_CNTR_CAPS,         "ibv_query_comp_cntr_caps") \
	X(QUERY_DEVICE,                 "ibv_query_device") \
	X(QUERY_DEVICE_EX,              "ibv_query_device_ex") \
	X(QUERY_ECE,                    "ibv_query_ece") \
	X(QUERY_GID,                    "ibv_query_gid") \
	X(QUERY_GID_EX,                 "ibv_query_gid_ex") \
	X(QUERY_GID_TABLE,              "ibv_query_gid_table") \
	X(QUERY_GID_TYPE,               "ibv_query_gid_type") \
	X(QUERY_PKEY,                   "ibv_query_pkey") \
	X(QUERY_PORT,                   "ibv_query_port") \
	X(QUERY_PORT_SPEED,             "ibv_query_port_speed") \
	X(QUERY_QP,                     "ibv_query_qp") \
	X(QUERY_RT_VALUES_EX,           "ibv_query_rt_values_ex") \
	X(QUERY_SRQ,                    "ibv_query_srq") \
	X(READ_COMP_CNTR,               "ibv_read_comp_cntr") \
	X(READ_COUNTERS,                "ibv_read_counters") \
	X(READ_ERR_COMP_CNTR,           "ibv_read_err_comp_cntr") \
	X(REG_BUF_MR,                   "ibv_reg_buf_mr") \
	X(REG_DM_MR,                    "ibv_reg_dm_mr") \
	X(REG_DMABUF_MR,                "ibv_reg_dmabuf_mr") \
	X(REG_MR,                       "ibv_reg_mr") \
	X(REG_MR_EX,                    "ibv_reg_mr_ex") \
	X(REQ_NOTIFY_CQ,                "ibv_req_notify_cq") \
	X(REREG_MR,                     "ibv_rereg_mr") \
	X(RESIZE_CQ,                    "ibv_resize_cq") \
	X(RESOLVE_ETH_L2_FROM_GID,      "ibv_resolve_eth_l2_from_gid") \
	X(SET_COMP_CNTR,                "ibv_set_comp_cntr") \
	X(SET_ECE,                      "ibv_set_ece") \
	X(SET_ERR_COMP_CNTR,            "ibv_set_err_comp_cntr") \
	X(START_POLL,                   "ibv_start_poll") \
	X(WR_COMPLETE,                  "ibv_wr_complete") \
	X(CM_ACCEPT,                    "rdma_accept") \
	X(CM_BIND_ADDR,                 "rdma_bind_addr") \
	X(CM_CONNECT,                   "rdma_connect") \
	X(CM_CREATE_EVENT_CHANNEL,      "rdma_create_event_channel") \
	X(CM_CREATE_ID,                 "rdma_create_id") \
	X(CM_DESTROY_ID,                "rdma_destroy_id") \
	X(CM_DISCONNECT,                "rdma_disconnect") \
	X(CM_GET_EVENT,                 "rdma_get_cm_event") \
	X(CM_INIT_QP_ATTR,              "rdma_init_qp_attr") \
	X(CM_JOIN_MULTICAST,            "rdma_join_multicast") \
	X(CM_LEAVE_MULTICAST,           "rdma_leave_multicast") \
	X(CM_LISTEN,                    "rdma_listen") \
	X(CM_MIGRATE_ID,                "rdma_migrate_id") \
	X(CM_NOTIFY,                    "rdma_notify") \
	X(CM_QUERY,                     "rdma_query_route") \
	X(CM_REJECT,                    "rdma_reject") \
	X(CM_RESOLVE_ADDR,              "rdma_resolve_addr") \
	X(CM_RESOLVE_ADDRINFO,          "rdma_resolve_addrinfo") \
	X(CM_RESOLVE_ROUTE,             "rdma_resolve_route") \
	X(CM_SET_OPTION,                "rdma_set_option") \
	X(CM_WRITE_EVENT,               "rdma_write_cm_event")
/* clang-format on */

enum av_verb {
	AV_VERB_NONE, /* not known */
#define AV_VERB_ID(id, name) AV_VERB_##id,
	AV_VERBS(AV_VERB_ID)
#undef AV_VERB_ID
		AV_VERB_N
};

/* The verb's name; "a verb" for a number that is none. */
const char *av_verb_name(unsigned int verb);

#endif
