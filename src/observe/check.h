/* SPDX-License-Identifier: MIT */
/* Verbs, checks that can fail, fields of a record, their sentences, and notes of failed checks. */
#pragma once

#include "observe/flight.h"

/* === check ======================================================================= */

/*
 * The calls that can fail: X(id, name, errno values...). A record names a call by its number. A
 * fault on demand fails it with one of these values, the first by default; 0: with none. They are
 * the values of its manual page, or else, since most pages just say "errno", those by which the
 * kernel refuses a command of its sort.
 */

/* clang-format off */
#define AV_ERRS_MAKE   ENOMEM, EAGAIN, EINVAL, EIO, EOPNOTSUPP, EPERM
#define AV_ERRS_CHANGE ENOMEM, EAGAIN, EBUSY, EINVAL, EIO, EOPNOTSUPP, EPERM
#define AV_ERRS_END    EBUSY, EAGAIN, EINVAL, EIO, ENOMEM
#define AV_ERRS_ASK    EIO, EAGAIN, EINVAL, ENOMEM, EOPNOTSUPP
#define AV_ERRS_POST   ENOMEM, EFAULT, EINVAL
#define AV_VERBS(X) \
	X(CQ_WAIT,                       "anyverbs_cq_wait",                  ETIMEDOUT, EINTR, EIO) \
	X(ADVISE_MR,                     "ibv_advise_mr",                     ENOMEM, EFAULT, EINVAL, ENOENT, ENOSYS, EOPNOTSUPP, EPERM) \
	X(ALLOC_BUF,                     "ibv_alloc_buf",                     AV_ERRS_MAKE) \
	X(ALLOC_DM,                      "ibv_alloc_dm",                      AV_ERRS_MAKE) \
	X(ALLOC_DMAH,                    "ibv_alloc_dmah",                    0) \
	X(ALLOC_MW,                      "ibv_alloc_mw",                      AV_ERRS_MAKE) \
	X(ALLOC_NULL_MR,                 "ibv_alloc_null_mr",                 AV_ERRS_MAKE) \
	X(ALLOC_PARENT_DOMAIN,           "ibv_alloc_parent_domain",           AV_ERRS_MAKE) \
	X(ALLOC_PD,                      "ibv_alloc_pd",                      AV_ERRS_MAKE) \
	X(ALLOC_TD,                      "ibv_alloc_td",                      AV_ERRS_MAKE) \
	X(ATTACH_COUNTERS_POINT_FLOW,    "ibv_attach_counters_point_flow",    0) \
	X(ATTACH_MCAST,                  "ibv_attach_mcast",                  AV_ERRS_CHANGE) \
	X(BIND_MW,                       "ibv_bind_mw",                       AV_ERRS_POST, EOPNOTSUPP, EPERM) \
	X(CLOSE_DEVICE,                  "ibv_close_device",                  EIO, EBUSY, EINVAL) \
	X(CLOSE_XRCD,                    "ibv_close_xrcd",                    AV_ERRS_END) \
	X(CREATE_AH,                     "ibv_create_ah",                     AV_ERRS_MAKE) \
	X(CREATE_AH_FROM_WC,             "ibv_create_ah_from_wc",             0) \
	X(CREATE_COMP_CHANNEL,           "ibv_create_comp_channel",           AV_ERRS_MAKE, EMFILE) \
	X(CREATE_COMP_CNTR,              "ibv_create_comp_cntr",              0) \
	X(CREATE_COUNTERS,               "ibv_create_counters",               0) \
	X(CREATE_CQ,                     "ibv_create_cq",                     AV_ERRS_MAKE) \
	X(CREATE_CQ_EX,                  "ibv_create_cq_ex",                  0) \
	X(CREATE_FLOW,                   "ibv_create_flow",                   0) \
	X(CREATE_FLOW_ACTION_ESP,        "ibv_create_flow_action_esp",        0) \
	X(CREATE_QP,                     "ibv_create_qp",                     AV_ERRS_MAKE) \
	X(CREATE_QP_EX,                  "ibv_create_qp_ex",                  0) \
	X(CREATE_RWQ_IND_TABLE,          "ibv_create_rwq_ind_table",          0) \
	X(CREATE_SRQ,                    "ibv_create_srq",                    AV_ERRS_MAKE) \
	X(CREATE_SRQ_EX,                 "ibv_create_srq_ex",                 0) \
	X(CREATE_WQ,                     "ibv_create_wq",                     0) \
	X(DEALLOC_DMAH,                  "ibv_dealloc_dmah",                  0) \
	X(DEALLOC_MW,                    "ibv_dealloc_mw",                    AV_ERRS_END) \
	X(DEALLOC_PD,                    "ibv_dealloc_pd",                    AV_ERRS_END) \
	X(DEALLOC_TD,                    "ibv_dealloc_td",                    AV_ERRS_END) \
	X(DEREG_MR,                      "ibv_dereg_mr",                      AV_ERRS_END) \
	X(DESTROY_AH,                    "ibv_destroy_ah",                    AV_ERRS_END) \
	X(DESTROY_COMP_CHANNEL,          "ibv_destroy_comp_channel",          AV_ERRS_END) \
	X(DESTROY_COMP_CNTR,             "ibv_destroy_comp_cntr",             0) \
	X(DESTROY_COUNTERS,              "ibv_destroy_counters",              0) \
	X(DESTROY_CQ,                    "ibv_destroy_cq",                    AV_ERRS_END) \
	X(DESTROY_FLOW,                  "ibv_destroy_flow",                  0) \
	X(DESTROY_FLOW_ACTION,           "ibv_destroy_flow_action",           0) \
	X(DESTROY_QP,                    "ibv_destroy_qp",                    AV_ERRS_END) \
	X(DESTROY_RWQ_IND_TABLE,         "ibv_destroy_rwq_ind_table",         0) \
	X(DESTROY_SRQ,                   "ibv_destroy_srq",                   AV_ERRS_END) \
	X(DESTROY_WQ,                    "ibv_destroy_wq",                    0) \
	X(DETACH_MCAST,                  "ibv_detach_mcast",                  AV_ERRS_END) \
	X(DM_EXPORT_DMABUF_FD,           "ibv_dm_export_dmabuf_fd",           0) \
	X(EXP_ALLOC_DM,                  "ibv_exp_alloc_dm",                  0) \
	X(EXP_ALLOC_MKEY_LIST_MEMORY,    "ibv_exp_alloc_mkey_list_memory",    0) \
	X(EXP_ARM_DCT,                   "ibv_exp_arm_dct",                   0) \
	X(EXP_BIND_MW,                   "ibv_exp_bind_mw",                   0) \
	X(EXP_CREATE_CQ,                 "ibv_exp_create_cq",                 0) \
	X(EXP_CREATE_DCT,                "ibv_exp_create_dct",                0) \
	X(EXP_CREATE_MR,                 "ibv_exp_create_mr",                 0) \
	X(EXP_CREATE_QP,                 "ibv_exp_create_qp",                 0) \
	X(EXP_CREATE_RES_DOMAIN,         "ibv_exp_create_res_domain",         0) \
	X(EXP_CREATE_SRQ,                "ibv_exp_create_srq",                0) \
	X(EXP_DEALLOC_MKEY_LIST_MEMORY,  "ibv_exp_dealloc_mkey_list_memory",  0) \
	X(EXP_DESTROY_DCT,               "ibv_exp_destroy_dct",               0) \
	X(EXP_DESTROY_RES_DOMAIN,        "ibv_exp_destroy_res_domain",        0) \
	X(EXP_FREE_DM,                   "ibv_exp_free_dm",                   0) \
	X(EXP_GET_PROVIDER_FUNC,         "ibv_exp_get_provider_func",         0) \
	X(EXP_MEMCPY_DM,                 "ibv_exp_memcpy_dm",                 0) \
	X(EXP_MODIFY_CQ,                 "ibv_exp_modify_cq",                 0) \
	X(EXP_MODIFY_QP,                 "ibv_exp_modify_qp",                 0) \
	X(EXP_OPEN_DEVICE,               "ibv_exp_open_device",               0) \
	X(EXP_POLL_CQ,                   "ibv_exp_poll_cq",                   0) \
	X(EXP_POLL_DC_INFO,              "ibv_exp_poll_dc_info",              0) \
	X(EXP_POST_SEND,                 "ibv_exp_post_send",                 0) \
	X(EXP_POST_TASK,                 "ibv_exp_post_task",                 0) \
	X(EXP_PREFETCH_MR,               "ibv_exp_prefetch_mr",               0) \
	X(EXP_QUERY_DCT,                 "ibv_exp_query_dct",                 0) \
	X(EXP_QUERY_DEVICE,              "ibv_exp_query_device",              0) \
	X(EXP_QUERY_GID_ATTR,            "ibv_exp_query_gid_attr",            0) \
	X(EXP_QUERY_INTF,                "ibv_exp_query_intf",                0) \
	X(EXP_QUERY_MKEY,                "ibv_exp_query_mkey",                0) \
	X(EXP_QUERY_PORT,                "ibv_exp_query_port",                0) \
	X(EXP_QUERY_VALUES,              "ibv_exp_query_values",              0) \
	X(EXP_REG_MR,                    "ibv_exp_reg_mr",                    0) \
	X(EXP_REG_SHARED_MR,             "ibv_exp_reg_shared_mr",             0) \
	X(EXP_RELEASE_INTF,              "ibv_exp_release_intf",              0) \
	X(EXP_REREG_MR,                  "ibv_exp_rereg_mr",                  0) \
	X(EXP_SETENV,                    "ibv_exp_setenv",                    0) \
	X(EXP_USE_PRIV_ENV,              "ibv_exp_use_priv_env",              0) \
	X(EXPORT_BUF_DMABUF_FD,          "ibv_export_buf_dmabuf_fd",          0) \
	X(FREE_DM,                       "ibv_free_dm",                       AV_ERRS_END) \
	X(GET_DEVICE_LIST,               "ibv_get_device_list",               ENOMEM, ENOSYS, EPERM) \
	X(GET_PKEY_INDEX,                "ibv_get_pkey_index",                AV_ERRS_ASK) \
	X(GET_SRQ_NUM,                   "ibv_get_srq_num",                   AV_ERRS_ASK) \
	X(IMPORT_DEVICE,                 "ibv_import_device",                 AV_ERRS_MAKE) \
	X(IMPORT_DM,                     "ibv_import_dm",                     AV_ERRS_MAKE) \
	X(IMPORT_MR,                     "ibv_import_mr",                     AV_ERRS_MAKE) \
	X(IMPORT_PD,                     "ibv_import_pd",                     AV_ERRS_MAKE) \
	X(INC_COMP_CNTR,                 "ibv_inc_comp_cntr",                 0) \
	X(INC_ERR_COMP_CNTR,             "ibv_inc_err_comp_cntr",             0) \
	X(INIT_AH_FROM_WC,               "ibv_init_ah_from_wc",               EINVAL, EIO) \
	X(MEMCPY_FROM_DM,                "ibv_memcpy_from_dm",                EFAULT, EINVAL, EIO) \
	X(MEMCPY_TO_DM,                  "ibv_memcpy_to_dm",                  EFAULT, EINVAL, EIO) \
	X(MODIFY_CQ,                     "ibv_modify_cq",                     AV_ERRS_CHANGE) \
	X(MODIFY_FLOW_ACTION_ESP,        "ibv_modify_flow_action_esp",        0) \
	X(MODIFY_QP,                     "ibv_modify_qp",                     AV_ERRS_CHANGE) \
	X(MODIFY_QP_RATE_LIMIT,          "ibv_modify_qp_rate_limit",          0) \
	X(MODIFY_SRQ,                    "ibv_modify_srq",                    AV_ERRS_CHANGE) \
	X(MODIFY_WQ,                     "ibv_modify_wq",                     0) \
	X(OPEN_DEVICE,                   "ibv_open_device",                   EIO, EACCES, EMFILE, ENODEV, ENOENT, ENOMEM, EPERM) \
	X(OPEN_QP,                       "ibv_open_qp",                       AV_ERRS_MAKE) \
	X(OPEN_XRCD,                     "ibv_open_xrcd",                     AV_ERRS_MAKE) \
	X(POST_SRQ_OPS,                  "ibv_post_srq_ops",                  0) \
	X(QP_ATTACH_COMP_CNTR,           "ibv_qp_attach_comp_cntr",           0) \
	X(QUERY_COMP_CNTR_CAPS,          "ibv_query_comp_cntr_caps",          0) \
	X(QUERY_DEVICE,                  "ibv_query_device",                  AV_ERRS_ASK) \
	X(QUERY_DEVICE_EX,               "ibv_query_device_ex",               EIO, EAGAIN, EINVAL, ENOMEM) \
	X(QUERY_ECE,                     "ibv_query_ece",                     0) \
	X(QUERY_GID,                     "ibv_query_gid",                     AV_ERRS_ASK) \
	X(QUERY_GID_EX,                  "ibv_query_gid_ex",                  AV_ERRS_ASK, ENODATA) \
	X(QUERY_GID_TABLE,               "ibv_query_gid_table",               AV_ERRS_ASK) \
	X(QUERY_GID_TYPE,                "ibv_query_gid_type",                AV_ERRS_ASK) \
	X(QUERY_PKEY,                    "ibv_query_pkey",                    AV_ERRS_ASK) \
	X(QUERY_PORT,                    "ibv_query_port",                    AV_ERRS_ASK) \
	X(QUERY_PORT_SPEED,              "ibv_query_port_speed",              0) \
	X(QUERY_QP,                      "ibv_query_qp",                      AV_ERRS_ASK) \
	X(QUERY_RT_VALUES_EX,            "ibv_query_rt_values_ex",            AV_ERRS_ASK) \
	X(QUERY_SRQ,                     "ibv_query_srq",                     AV_ERRS_ASK) \
	X(READ_COMP_CNTR,                "ibv_read_comp_cntr",                0) \
	X(READ_COUNTERS,                 "ibv_read_counters",                 0) \
	X(READ_ERR_COMP_CNTR,            "ibv_read_err_comp_cntr",            0) \
	X(REG_BUF_MR,                    "ibv_reg_buf_mr",                    0) \
	X(REG_DM_MR,                     "ibv_reg_dm_mr",                     0) \
	X(REG_DMABUF_MR,                 "ibv_reg_dmabuf_mr",                 AV_ERRS_MAKE, EFAULT) \
	X(REG_MR,                        "ibv_reg_mr",                        AV_ERRS_MAKE, EFAULT) \
	X(REG_MR_EX,                     "ibv_reg_mr_ex",                     0) \
	X(REREG_MR,                      "ibv_rereg_mr",                      AV_ERRS_CHANGE) \
	X(RESIZE_CQ,                     "ibv_resize_cq",                     AV_ERRS_CHANGE) \
	X(RESOLVE_ETH_L2_FROM_GID,       "ibv_resolve_eth_l2_from_gid",       0) \
	X(SET_COMP_CNTR,                 "ibv_set_comp_cntr",                 0) \
	X(SET_ECE,                       "ibv_set_ece",                       0) \
	X(SET_ERR_COMP_CNTR,             "ibv_set_err_comp_cntr",             0) \
	X(CM_ACCEPT,                     "rdma_accept",                       EINVAL, ENODEV, ENOMEM) \
	X(CM_BIND_ADDR,                  "rdma_bind_addr",                    EADDRINUSE, EACCES, EADDRNOTAVAIL, EINVAL, ENODEV, ENOMEM) \
	X(CM_CONNECT,                    "rdma_connect",                      EINVAL, EADDRNOTAVAIL, ENODEV, ENOMEM) \
	X(CM_CREATE_EVENT_CHANNEL,       "rdma_create_event_channel",         ENODEV, EACCES, EMFILE, ENOENT, ENOMEM) \
	X(CM_CREATE_ID,                  "rdma_create_id",                    ENOMEM, EINVAL, ENODEV) \
	X(CM_DESTROY_ID,                 "rdma_destroy_id",                   EINVAL, EIO) \
	X(CM_DISCONNECT,                 "rdma_disconnect",                   EINVAL, ENODEV, ENOMEM) \
	X(CM_INIT_QP_ATTR,               "rdma_init_qp_attr",                 EINVAL, ENODEV) \
	X(CM_JOIN_MULTICAST,             "rdma_join_multicast",               ENOMEM, EADDRNOTAVAIL, EINVAL, ENODEV) \
	X(CM_LEAVE_MULTICAST,            "rdma_leave_multicast",              EADDRNOTAVAIL, EINVAL) \
	X(CM_LISTEN,                     "rdma_listen",                       EADDRINUSE, EINVAL, ENODEV, ENOMEM) \
	X(CM_MIGRATE_ID,                 "rdma_migrate_id",                   ENODEV, EINVAL, ENOMEM) \
	X(CM_NOTIFY,                     "rdma_notify",                       EINVAL) \
	X(CM_QUERY,                      "rdma_query_route",                  EINVAL, ENODEV) \
	X(CM_REJECT,                     "rdma_reject",                       EINVAL, ENODEV, ENOMEM) \
	X(CM_RESOLVE_ADDR,               "rdma_resolve_addr",                 ENODEV, EADDRNOTAVAIL, EINVAL, ENOMEM) \
	X(CM_RESOLVE_ADDRINFO,           "rdma_resolve_addrinfo",             ENODEV, EINVAL, ENOMEM, ENOSYS) \
	X(CM_RESOLVE_ROUTE,              "rdma_resolve_route",                ENODEV, EINVAL, ENOMEM) \
	X(CM_SET_OPTION,                 "rdma_set_option",                   EINVAL, ENOSYS) \
	X(CM_WRITE_EVENT,                "rdma_write_cm_event",               EINVAL, ENOMEM, ENOSYS) \
	/* Not of "fail any": posts, polls and waits, and what is no verb. */ \
	X(GET_ASYNC_EVENT,               "ibv_get_async_event",               EIO, EAGAIN, EINTR) \
	X(GET_CQ_EVENT,                  "ibv_get_cq_event",                  EIO, EAGAIN, EINTR) \
	X(POLL_CQ,                       "ibv_poll_cq",                       EIO, EFAULT, EINVAL, ENOMEM) \
	X(POST_RECV,                     "ibv_post_recv",                     AV_ERRS_POST) \
	X(POST_SEND,                     "ibv_post_send",                     AV_ERRS_POST) \
	X(POST_SRQ_RECV,                 "ibv_post_srq_recv",                 AV_ERRS_POST) \
	X(REQ_NOTIFY_CQ,                 "ibv_req_notify_cq",                 EIO, EINVAL, EPERM) \
	X(START_POLL,                    "ibv_start_poll",                    EIO, EFAULT, EINVAL, ENOMEM) \
	X(WR_COMPLETE,                   "ibv_wr_complete",                   AV_ERRS_POST) \
	X(CM_GET_EVENT,                  "rdma_get_cm_event",                 ENOMEM, EAGAIN, EINTR, EIO) \
	X(MEMORY,                        "memory",                             ENOMEM)
/* clang-format on */

enum av_verb {
	AV_VERB_NONE, /* unknown */
#define AV_VERB_ID(id, name, ...) AV_VERB_##id,
	AV_VERBS(AV_VERB_ID)
#undef AV_VERB_ID
		AV_VERB_N
};
#define AV_VERB_ANY_N AV_VERB_GET_ASYNC_EVENT /* "fail any" means verbs below this one */

/* The verb's name; "a verb" for an unknown number. A static string */
const char *av_verb_name(unsigned int verb);

/* The errno values of its row, each a byte, then 0. */
const uint8_t *av_verb_errs(unsigned int verb);

/*
 * Every check that can fail: the clause that states the rule, the sentence that says how the
 * program broke it, and advice ("": none). {field}: of the record, by its name in observe/check.c.
 */

/* clang-format off */
#define AV_CHECKS(X) \
	/* --- verbs: only the errno value is known ---------------------------------------- */ \
	X(OBJECT_UNKNOWN,   "ibv_*(3): ENOENT",     "there is no such object: it was destroyed, belongs to another context, or its structure was overwritten", "") \
	X(OBJECT_BUSY,      "ibv_*(3): EBUSY",      "the object is still in use", "destroy what was created from it first") \
	X(FOLDER_FULL,      "anyverbs(7)",          "the file system of the shared folder is too small or full: {wanted} KiB are needed, {limit} KiB are free", "give the container a larger /dev/shm (docker run --shm-size=1g), or set ANYVERBS_DIR to another folder for all processes") \
	X(CONTEXT_MEMORY,   "anyverbs-doctor(1)",   "the system refuses the context's memory: {wanted} GiB of addresses, nearly all of it a hole", "anyverbs doctor says which limit (ulimit -f, ulimit -v) or filter is in the way") \
	X(PD_BUSY,          "ibv_alloc_pd(3)",      "the protection domain still has {detail}", "destroy what is on it first") \
	X(PD_BUSY_IMPORTED, "ibv_import_pd(3)",     "this process still has {detail} on the protection domain, which it imported from process {limit}", "destroy them first; what that process has on it does not matter here") \
	X(CQ_BUSY,          "ibv_create_cq(3)",     "{wanted} send or receive queue(s) still complete to it", "destroy their queue pairs first") \
	X(CHANNEL_BUSY,     "ibv_create_comp_channel(3)", "{wanted} completion queue(s) still use the channel", "destroy them first") \
	X(SRQ_BUSY,         "ibv_create_srq(3)",    "queue pairs still receive from it", "destroy them first") \
	X(GROUP_BUSY,       "ibv_attach_mcast(3)",  "the queue pair is still attached to {wanted} multicast group(s)", "detach it with ibv_detach_mcast() first") \
	X(NO_MEMORY,        "ibv_*(3): ENOMEM",     "out of memory, or the device's limit for such objects is reached", "compare with the limits of ibv_query_device(); is /dev/shm full?") \
	X(NO_DESCRIPTOR,    "getrlimit(2)",         "no file descriptor is free: the process, or the host, has as many as it may have", "raise RLIMIT_NOFILE (ulimit -n), or close files") \
	X(NOT_PERMITTED,    "ibv_*(3): EPERM",      "the context or object belongs to another process", "a child of fork() must open the device itself") \
	X(DEVICE_FAILED,    "ibv_*(3): EIO",        "the device has failed", "close the context and open the device again") \
	X(NOT_SUPPORTED,    "ibv_*(3): EOPNOTSUPP", "this device does not support it", "check ibv_query_device_ex() first") \
	X(ARGUMENT,         "ibv_*(3): EINVAL",     "an argument is invalid", "") \
	X(BAD_ADDRESS,      "ibv_*(3): EFAULT",     "the memory is not mapped, or its protection forbids the access", "map it before the call, writable if anybody may write to it") \
	X(MEMORY_LOW,       "ibv_reg_mr(3)",        "nothing is mapped at {wanted:x}, nor anywhere below it", "was the allocation successful?") \
	X(MEMORY_HOLE,      "ibv_reg_mr(3)",        "nothing is mapped at {wanted:x}; the mapping before it ends at {limit:x}: {detail}", "are address and length those of the memory that was allocated?") \
	X(MEMORY_FORBIDS,   "ibv_reg_mr(3)",        "the mapping at {wanted:x} forbids the access: {detail}", "leave out rights to write, or map it with PROT_READ | PROT_WRITE") \
	X(MEMORY_UNUSABLE,  "ibv_reg_mr(3)",        "the page at {wanted:x} cannot be had: {detail}", "it is behind the end of its file, or belongs to a device or the kernel") \
	X(NO_OBJECT,        "ibv_*(3)",             "NULL was passed for the object", "look at what the verb that creates it returned") \
	X(COMP_MASK,        "ibv_*(3)",             "comp_mask {wanted:x}; the known bits are {limit:x}", "zero the structure before filling it in") \
	X(COMP_MASK_LACKS,  "ibv_*(3)",             "comp_mask {wanted:x} does not have all of {limit:x}, which are required", "") \
	X(FLAGS,            "ibv_*(3)",             "flags {wanted:x}; the ones possible here are {limit:x}", "") \
	X(PD_UNKNOWN,       "ibv_alloc_pd(3)",      "the protection domain does not exist in this context", "") \
	X(TD_UNKNOWN,       "ibv_alloc_td(3)",      "the thread domain or resource domain does not exist in this context", "") \
	X(NO_SUCH_VERB,     "ibv_exp_*(3): ENOSYS", "the device does not have this verb", "") \
	X(OTHER_ERROR,      "ibv_*(3)",             "it failed", "") \
	/* --- posting --------------------------------------------------------------------- */ \
	X(POST_OBJECT,      "ibv_post_send(3)",     "the queue does not exist, or belongs to another process", "a child of fork() must open the device itself") \
	X(POST_SEND_STATE,  "ibv_post_send(3)",       "the queue pair is in state {state}, which accepts no send requests", "move it to RTS with ibv_modify_qp() first") \
	X(POST_RECV_STATE,  "ibv_post_recv(3)",       "the queue pair is in state {state}, which accepts no receive requests", "move it to INIT with ibv_modify_qp() first") \
	X(POST_RECV_SRQ,    "ibv_create_qp(3)",     "the queue pair has no receive queue of its own: it receives from an SRQ", "post receives to it with ibv_post_srq_recv()") \
	X(POST_SEND_FULL,   "ibv_post_send(3)",     "the send queue is full: {limit} requests", "poll the completions of signalled requests, which also free the requests before them, or ask for more max_send_wr") \
	X(POST_RECV_FULL,   "ibv_post_recv(3)",     "the receive queue is full: {limit} requests", "poll completions first, or ask for more max_recv_wr") \
	X(POST_OPCODE,      "ibv_post_send(3)",     "opcode {wanted:d} does not exist", "") \
	X(POST_SEND_SGE,    "ibv_post_send(3)",     "{wanted:d} elements; a request may have at most {limit}", "ask for more max_send_sge when the queue pair is created") \
	X(POST_RECV_SGE,    "ibv_post_recv(3)",     "{wanted:d} elements; a request may have at most {limit}", "ask for more max_recv_sge when the queue is created") \
	X(POST_SEND_LIST,   "ibv_post_send(3)",     "{wanted} element(s), and sg_list is NULL", "a request without data has num_sge 0") \
	X(POST_RECV_LIST,   "ibv_post_recv(3)",     "{wanted} element(s), and sg_list is NULL", "a receive without a buffer has num_sge 0") \
	X(POST_INLINE,      "ibv_post_send(3)",     "{wanted} B inline; the queue pair accepts at most {limit} B", "ask for more max_inline_data when the queue pair is created") \
	X(POST_INLINE_OP,   "ibv_post_send(3)",     "{wanted:opcode} cannot carry inline data", "IBV_SEND_INLINE is for SEND and RDMA WRITE") \
	X(POST_AH,          "ibv_post_send(3)",     "the datagram's address handle is invalid", "create it with ibv_create_ah(), and destroy it only after the post") \
	X(POST_NO_LIST,     "ibv_wr_post(3)",       "{wanted:opcode} takes no elements", "") \
	X(POST_FLUSH,       "ibv_wr_post(3)",       "placement type {wanted:x} or selectivity level {limit} of a FLUSH does not exist", "") \
	X(POST_DAMAGED,     "ibv_post_send(3)",     "the memory of the send queue was overwritten", "") \
	X(POST_OPERAND,     "ibv_exp_post_send(3)", "an operand of {wanted} B is missing, or of a size that atomic operations do not have", "log_arg_sz is the logarithm of the size, and operands of more than 8 B are passed by pointers") \
	X(POLL_COUNT,       "ibv_poll_cq(3)",       "num_entries is {wanted:d}", "") \
	X(POST_OPERANDS,    "ibv_exp_post_send(3)", "operands of {wanted} B; the queue pair accepts at most {limit} B", "ask for max_atomic_arg when the queue pair is created") \
	/* --- memory regions -------------------------------------------------------------- */ \
	X(MR_NEEDS_LOCAL,   "ibv_reg_mr(3)",        "a remote right to write or to use atomics ({access}) needs IBV_ACCESS_LOCAL_WRITE", "add IBV_ACCESS_LOCAL_WRITE") \
	X(MR_PERSISTENT,    "ibv_reg_mr(3)",        "this device has no persistent memory", "flush with global visibility instead") \
	X(MR_FLAGS,         "ibv_reg_mr(3)",        "access flags {wanted:x} are unknown; the known flags are {limit:x}", "") \
	X(MR_TUNNELED,      "ibv_exp_reg_mr(3)",    "tunneled atomics need the device's switch and IBV_ACCESS_LOCAL_WRITE", "anyverbs config set IBM_TUNNELED_ATOMIC_EN=1, then anyverbs reset") \
	X(MR_LENGTH,        "ibv_reg_mr(3)",        "{wanted} B; a region may have at most {limit} B", "") \
	X(MR_WRAPS,         "ibv_reg_mr(3)",        "{length} B from {address} on wrap around the end of the address space", "") \
	X(MR_IOVA,          "ibv_reg_mr_iova(3)",   "address and iova have different offsets in their pages ({wanted} and {limit})", "they must be equal modulo the page size") \
	X(MR_IMPLICIT,      "ibv_reg_mr(3)",        "a region on demand of SIZE_MAX bytes is the whole address space: it begins at 0, not at {wanted:x}, and has no IBV_ACCESS_HUGETLB", "") \
	X(MR_EMPTY,         "ibv_reg_mr(3)",        "a region on demand of 0 B", "") \
	X(MR_ALLOCATED,     "ibv_exp_reg_mr(3)",    "access flags {wanted:x} are not possible with memory that is allocated with the region", "") \
	X(MR_ALLOCATED_AT,  "ibv_exp_reg_mr(3)",    "the address wanted, {wanted:x}, is not a multiple of {limit} B", "") \
	X(MR_ALLOCATE,      "ibv_exp_reg_mr(3)",    "IBV_EXP_ACCESS_ALLOCATE_MR with an address, or with IBV_EXP_REG_MR_CREATE_CONTIG", "leave addr NULL; contiguous memory at an address is CONTIG alone") \
	X(MR_RELAXED,       "ibv_exp_reg_mr(3)",    "IBV_EXP_ACCESS_RELAXED with {wanted} B; it is for regions on demand of at most {limit} B", "") \
	X(MR_ZERO_BASED,    "ibv_exp_reg_mr(3)",    "IBV_EXP_ACCESS_MW_ZERO_BASED is a right of windows, not of regions", "") \
	X(MR_SHARE_LENGTH,  "ibv_exp_reg_mr(3)",    "{wanted} B; a shared region has a multiple of {limit} B", "") \
	X(MR_NO_RDMA,       "ibv_exp_reg_mr(3)",    "IBV_EXP_ACCESS_NO_RDMA is for shared regions", "") \
	X(MR_HANDLE,        "ibv_exp_reg_shared_mr(3)", "handle {wanted:x} is not that of a shared region of this device", "its owner must still have it") \
	X(REG_MASK,         "ibv_reg_mr_ex(3)",     "comp_mask {wanted:x}: a dma-buf is named by FD, FD_OFFSET and IOVA, other memory by ADDR", "") \
	X(BUF_RANGE,        "ibv_reg_buf_mr(3)",    "{wanted} B from {limit:x} on are not within the buffer, or it is not one of this protection domain", "") \
	X(DMABUF_FD,        "ibv_reg_dmabuf_mr(3)", "descriptor {wanted:d} is not a dma-buf", "") \
	X(DMABUF_ACCESS,    "ibv_reg_dmabuf_mr(3)", "access flags {wanted:x}; the ones possible with a dma-buf are {limit:x}", "") \
	X(DMABUF_RANGE,     "ibv_reg_dmabuf_mr(3)", "the range ends at byte {wanted} of a dma-buf of {limit} B", "") \
	X(DMABUF_MAP,       "ibv_reg_dmabuf_mr(3)", "the dma-buf cannot be mapped: errno {wanted}", "its exporter must permit mmap(2), readable and writable") \
	X(MR_WINDOWS,       "IBTA 1, 10.6.7.2",   "memory windows are still bound to the region", "unbind or deallocate the windows first") \
	X(MR_CHANGING,      "ibv_rereg_mr(3)",    "another thread is re-registering or deregistering the region", "let one thread at a time do so") \
	X(REREG_INPUT,      "ibv_rereg_mr(3)",      "flags and arguments do not fit together, or this kind of region cannot be changed", "a new address needs CHANGE_TRANSLATION, new rights need CHANGE_ACCESS") \
	X(REREG_FLAGS,      "ibv_rereg_mr(3)",      "no change was requested, or this kind of region cannot be changed", "") \
	X(REREG_PAGING,     "ibv_rereg_mr(3)",      "a region cannot become an ODP region, nor cease to be one", "register it again") \
	X(REREG_OVERLAP,    "ibv_rereg_mr(3)",      "the new range lies in the memory that was allocated with the region, which this change frees", "") \
	X(REREG_PD,         "ibv_rereg_mr(3)",      "the new protection domain does not belong to this context", "") \
	/* --- queue pairs ----------------------------------------------------------------- */ \
	X(QP_TYPE,          "ibv_create_qp(3)",     "queue pair type {wanted:d} does not exist", "") \
	X(QP_TYPE_LACKING,  "ibv_create_qp(3)",     "the device has no queue pairs of type {wanted:type}", "it has RC, UC, UD, XRC_SEND and XRC_RECV") \
	X(QP_SEND_WR,       "ibv_create_qp(3)",     "max_send_wr {wanted} is above the device's {limit}", "max_qp_wr of ibv_query_device() is the limit") \
	X(QP_RECV_WR,       "ibv_create_qp(3)",     "max_recv_wr {wanted} is above the device's {limit}", "max_qp_wr of ibv_query_device() is the limit") \
	X(QP_SEND_SGE,      "ibv_create_qp(3)",     "max_send_sge {wanted} is above the device's {limit}", "max_sge of ibv_query_device() is the limit") \
	X(QP_RECV_SGE,      "ibv_create_qp(3)",     "max_recv_sge {wanted} is above the device's {limit}", "max_sge of ibv_query_device() is the limit") \
	X(QP_INLINE,        "ibv_create_qp(3)",     "max_inline_data {wanted} is above the device's {limit}", "send longer data from registered memory") \
	X(QP_SEND_CQ,       "ibv_create_qp(3)",     "send_cq is not a completion queue of this context", "") \
	X(QP_RECV_CQ,       "ibv_create_qp(3)",     "recv_cq is not a completion queue of this context", "") \
	X(QP_SRQ,           "ibv_create_qp(3)",     "srq is not a shared receive queue of this context, or is of the wrong type", "") \
	X(QP_XRCD,          "ibv_create_qp_ex(3)",  "xrcd is not an XRC domain of this context", "") \
	X(QP_MASK,          "ibv_create_qp_ex(3)",  "comp_mask {wanted:x}: only the bits {limit:x} are known, and the domain (PD, or XRCD for XRC_RECV) is required", "") \
	X(QP_CREATE_FLAGS,  "ibv_create_qp_ex(3)",  "create_flags {wanted:x} are unknown", "") \
	X(QP_SEND_OPS,      "ibv_create_qp_ex(3)",  "send_ops_flags {wanted:x}; this type of queue pair supports {limit:x}", "") \
	X(QP_OPEN_TYPE,     "ibv_open_qp(3)",       "a queue pair of type {wanted:type} cannot be opened", "only XRC_RECV can be") \
	X(QP_ENDED,         "ibv_open_qp(3)",       "the queue pair was opened by its number, and its creator has destroyed it since", "") \
	X(QP_UMR,           "ibv_exp_create_qp(3)", "IBV_EXP_QP_CREATE_UMR and max_inl_send_klms go together; {wanted} elements were asked for, and at most {limit} are possible", "") \
	X(QP_FEATURE,       "ibv_exp_create_qp(3)", "the device has no flow steering, groups, TSO, peer direct or DC; comp_mask {wanted:x}, exp_create_flags {limit:x}", "ask for such features only when ibv_exp_query_device() has them") \
	X(QP_OPERANDS,      "ibv_exp_create_qp(3)", "max_atomic_arg {wanted} is above the device's {limit}", "") \
	X(ATTR_MASK,        "ibv_exp_modify_qp(3)", "attr_mask {wanted:x}; the known bits are {limit:x}", "") \
	X(ATTR_PORT,        "ibv_modify_qp(3)",     "port_num {wanted}; the device has {limit} port(s)", "ports are counted from 1") \
	X(ATTR_PKEY,        "ibv_modify_qp(3)",     "pkey_index {wanted}; the last one is {limit}", "") \
	X(ATTR_ALT_PATH,    "ibv_modify_qp(3)",     "the device has no automatic path migration", "leave out IBV_QP_ALT_PATH") \
	X(ATTR_PATH_MIG,    "ibv_modify_qp(3)",     "path_mig_state {wanted}; only {limit} is possible", "") \
	X(ATTR_MTU,         "ibv_modify_qp(3)",     "path_mtu is {wanted:mtu}; the port takes IBV_MTU_256 to {limit:mtu}", "it is an enum ibv_mtu, not a number of bytes: active_mtu of ibv_query_port() is the limit") \
	X(ATTR_RD_ATOMIC,   "ibv_modify_qp(3)",     "max_rd_atomic {wanted} is above the device's {limit}", "max_qp_init_rd_atom of ibv_query_device() is the limit") \
	X(ATTR_DEST_RD,     "ibv_modify_qp(3)",     "max_dest_rd_atomic {wanted} is above the device's {limit}", "max_qp_rd_atom of ibv_query_device() is the limit") \
	X(STATE_CURRENT,    "ibv_modify_qp(3)",       "a program may not claim cur_qp_state {wanted:d}", "") \
	X(STATE_CHANGE,     "ibv_modify_qp(3)",       "there is no transition from state {state} to state {wanted:state}", "the order is RESET, INIT, RTR, RTS") \
	X(STATE_MISSING,    "ibv_modify_qp(3)",     "attr_mask lacks {wanted:mask}; the move to {state} requires {limit:mask}", "set each attribute in struct ibv_qp_attr, and its bit in attr_mask") \
	X(STATE_EXTRA,      "ibv_modify_qp(3)",     "attr_mask has {wanted:mask}; the move to {state} accepts {limit:mask}", "") \
	X(AV_PORT,          "ibv_create_ah(3)",     "port_num {wanted} in the address vector; the device has {limit} port(s)", "ports are counted from 1") \
	X(AV_GLOBAL,        "ibv_create_ah(3)",     "on Ethernet, an address vector needs a GRH; a program that knows only LIDs runs with ANYVERBS_DEVICES={device}:link=infiniband", "set is_global and grh.dgid; if the GID exchanged is all zero, it is of an empty row: anyverbs info shows the rows, and programs take one by -g or -x") \
	X(AH_GRH,           "ibv_init_ah_from_wc(3)", "the header is neither one of IPv4 nor one of IPv6: its bytes 0 and 20 are {wanted:x} and {limit:x}", "it is in the first 40 B of the receive buffer") \
	X(AV_SGID,          "ibv_create_ah(3)",     "row {wanted} of the GID table is empty", "anyverbs info shows the table") \
	/* --- completion queues ----------------------------------------------------------- */ \
	X(CQ_SIZE,          "ibv_create_cq(3)",     "{wanted:d} entries; a completion queue may have 1 to {limit}", "max_cqe of ibv_query_device() is the limit") \
	X(CQ_VECTOR,        "ibv_create_cq(3)",     "comp_vector {wanted:d}; the device has {limit}", "vectors are counted from 0") \
	X(CQ_CHANNEL,       "ibv_create_cq(3)",     "the completion channel belongs to another context", "") \
	X(CQ_MASK,          "ibv_create_cq_ex(3)",  "comp_mask {wanted:x}; the known bits are {limit:x}", "") \
	X(CQ_FLAGS,         "ibv_create_cq_ex(3)",  "flags {wanted:x}; the known flags are {limit:x}", "") \
	X(CQ_PARENT,        "ibv_create_cq_ex(3)",  "parent_domain is not a parent domain of this context", "") \
	X(CQ_WC_FLAGS,      "ibv_create_cq_ex(3)",  "wc_flags {wanted:x}; only {limit:x} can be read", "") \
	X(CQ_MODIFY,        "ibv_modify_cq(3)",     "attr_mask {wanted:x} has unknown bits", "") \
	X(CQ_HOLDS,         "ibv_resize_cq(3)",     "it holds {wanted} completions, and {limit} entries were asked for", "poll it first") \
	X(CQ_NO_CHANNEL,    "anyverbs_cq_wait(3)",  "the completion queue has neither a channel nor IBV_EXP_CQ_AS_NOTIFY", "") \
	X(CQ_TIMEOUT,       "anyverbs_cq_wait(3)",  "a timeout of {wanted:d} s and {limit:d} ns", "tv_nsec is 0 to 999999999") \
	/* --- others ---------------------------------------------------------------------- */ \
	X(SRQ_SIZE,         "ibv_create_srq(3)",    "max_wr {wanted}; a shared receive queue may have at most {limit}", "max_srq_wr of ibv_query_device() is the limit") \
	X(SRQ_SGE,          "ibv_create_srq(3)",    "max_sge {wanted}; the maximum is {limit}", "max_srq_sge of ibv_query_device() is the limit") \
	X(SRQ_MASK,         "ibv_modify_srq(3)",    "mask {wanted:x} has unknown bits", "") \
	X(SRQ_LIMIT,        "ibv_modify_srq(3)",    "srq_limit {wanted}; the queue holds {limit} requests", "") \
	X(SRQ_HOLDS,        "ibv_modify_srq(3)",    "{wanted} requests are posted, and a max_wr of {limit} was asked for", "") \
	X(SRQ_TYPE,         "ibv_create_srq_ex(3)", "srq_type {wanted:d} is not possible", "") \
	X(SRQ_OBJECTS,      "ibv_create_srq_ex(3)", "the protection domain, XRC domain or completion queue does not exist in this context", "") \
	X(SRQ_NO_NUMBER,    "ibv_get_srq_num(3)",   "only shared receive queues of type XRC have a number", "") \
	X(MW_TYPE,          "ibv_alloc_mw(3)",      "window type {wanted:d} does not exist", "") \
	X(MW_ZERO_BASED,    "ibv_bind_mw(3)",       "a window of type 1 cannot be zero based", "") \
	X(MW_REGION,        "ibv_bind_mw(3)",       "windows cannot be bound to this kind of region", "bind them to ordinary memory registered with IBV_ACCESS_MW_BIND") \
	X(MCAST_SERVICE,    "ibv_attach_mcast(3)",  "the queue pair is not of type UD", "") \
	X(MCAST_GID,        "ibv_attach_mcast(3)",  "the GID is not a multicast address", "it must begin with ff") \
	X(MCAST_NOT_ATTACHED, "ibv_detach_mcast(3)", "the queue pair is not attached to that group", "") \
	X(SETTING,          "ibv_exp_setenv(3)",    "the name of a setting is missing, empty or has a =, or its value is missing", "") \
	X(SETTING_LONG,     "ibv_exp_setenv(3)",    "a value of {wanted} B; a context's own setting has at most {limit} B", "") \
	X(RES_MODEL,        "ibv_exp_create_res_domain(3)", "thread_model or msg_model {wanted} does not exist", "") \
	X(ADVISE_CALL,      "ibv_advise_mr(3)",     "{wanted} element(s), and sg_list may not be empty or NULL", "") \
	X(ADVISE_RANGE,     "ibv_advise_mr(3)",     "element {wanted} is not within its region", "") \
	X(ADVISE_ADVICE,    "ibv_advise_mr(3)",     "advice {wanted:d} does not exist", "") \
	X(ADVISE_KEY,       "ibv_advise_mr(3)",     "key {key:x} does not belong to an ODP region", "register it with IBV_ACCESS_ON_DEMAND") \
	X(ADVISE_PD,        "ibv_advise_mr(3)",     "the region of key {key:x} belongs to another protection domain", "") \
	X(ADVISE_RIGHT,     "ibv_advise_mr(3)",     "the region of key {key:x} is not writable", "advise IBV_ADVISE_MR_ADVICE_PREFETCH instead") \
	X(DM_LENGTH,        "ibv_alloc_dm(3)",      "{wanted} B of device memory; the device has {limit} B", "max_dm_size of ibv_query_device_ex() is the limit") \
	X(DM_ALIGN,         "ibv_alloc_dm(3)",      "log_align_req {wanted}; the maximum is {limit}", "") \
	X(DM_RANGE,         "ibv_alloc_dm(3)",      "the range ends at byte {wanted} of device memory that has {limit} B", "") \
	X(DM_FULL,          "ibv_alloc_dm(3)",      "{wanted} B of device memory; {limit} B are free", "all processes share it: max_dm_size of ibv_query_device_ex()") \
	X(DM_UNKNOWN,       "ibv_alloc_dm(3)",      "the device memory does not exist in this context", "") \
	X(DM_DIRECTION,     "ibv_exp_memcpy_dm(3)", "memcpy_dir {wanted} does not exist", "") \
	X(DM_UNIT,          "ibv_alloc_dm(3)",      "offset and length of a copy must be multiples of {limit}", "") \
	X(DM_ACCESS,        "ibv_reg_dm_mr(3)",     "access flags {wanted:x} are not possible with device memory", "it needs IBV_ACCESS_ZERO_BASED") \
	X(XRCD_MASK,        "ibv_open_xrcd(3)",     "comp_mask {wanted:x} is not {limit:x}", "") \
	X(XRCD_EXISTS,      "ibv_open_xrcd(3)",     "the domain of that file exists, and O_EXCL was given", "") \
	X(QUERY_PORT,       "ibv_query_port(3)",    "port_num {wanted}; the device has {limit} port(s)", "ports are counted from 1") \
	X(GID_INDEX,        "ibv_query_gid(3)",     "index {wanted:d}; the GID table has {limit} row(s)", "rows are counted from 0; anyverbs info shows the table") \
	X(GID_ROOM,         "ibv_query_gid_table(3)", "room for {wanted} entries; {limit} row(s) of the GID table are in use", "gid_tbl_len of ibv_query_port() is enough") \
	X(PKEY_INDEX,       "ibv_query_pkey(3)",    "index {wanted:d}; the P_Key table has {limit} row(s)", "rows are counted from 0") \
	X(PKEY_ABSENT,      "ibv_get_pkey_index(3)", "P_Key {wanted:x} is not in the port's table", "the table has one row, {limit:x}; it is passed in network byte order") \
	/* --- keys: what a request's key led to ------------------------------------------- */ \
	X(KEY_UNKNOWN,      "IBTA 1, 10.6.3",       "that context has no such key", "was the key transferred whole, in the right byte order, and by the process that this queue pair is connected to?") \
	X(LKEY_UNKNOWN,     "IBTA 1, 10.6.3",       "its context has no such key", "set lkey of each element to that of the region that its buffer was registered as") \
	X(KEY_DEAD,         "IBTA 1, 10.6.3",       "the key is no longer valid: its region was deregistered, or its window was rebound or unbound", "deregister after the last completion, not before") \
	X(KEY_UNBOUND,      "IBTA 1, 10.6.7.2",     "the memory window is not bound", "wait for the completion of the bind before sending the key") \
	X(KEY_IS_LKEY,      "ibv_reg_mr(3)",        "key {key:x} is the region's lkey, and its rkey is needed: another device may give it another number", "send the peer the rkey") \
	X(KEY_IS_RKEY,      "ibv_reg_mr(3)",        "key {key:x} is the region's rkey, and its lkey is needed: another device may give it another number", "use the lkey in scatter/gather elements") \
	X(KEY_IS_WINDOW,    "IBTA 1, 10.6.7.2",     "the key belongs to a memory window, which allows remote access only", "") \
	X(KEY_IS_NULL,      "ibv_alloc_null_mr(3)", "the key belongs to a null region, which allows local access only", "") \
	X(KEY_PD,           "IBTA 1, 10.6.3",     "the region belongs to protection domain {region_pd}, the queue to {pd}", "create the queue pair and register the memory in the same protection domain") \
	X(KEY_WINDOW_QP,    "IBTA 1, 10.6.7.2",     "the memory window is bound to QP {region_qp}, and only that queue pair may use it", "") \
	X(KEY_RIGHTS,       "IBTA 1, 10.6.3",     "the region permits {region_access}, and {access} is needed", "register it with {access}") \
	X(KEY_BEFORE,       "IBTA 1, 10.6.3",     "the range begins {wanted} B before the region, which has {region_length} B at {region_address}", "do address and key belong to the same region?") \
	X(KEY_BEHIND,       "IBTA 1, 10.6.3",     "the range ends {wanted} B beyond the region, which has {region_length} B at {region_address}", "register more, or ask for less; do address and key belong to the same region?") \
	X(KEY_UNMAPPED,     "IBTA 1, 10.6.3",       "part of the region was unmapped after registration", "deregister before munmap()") \
	X(KEY_PIECE,        "UMR",                  "a piece of memory behind the UMR key cannot be reached", "") \
	X(KEY_LIST,         "ibv_post_send(3)",     "the elements hold fewer bytes than the request needs", "") \
	X(MEMORY_FAULT,     "IBTA 1, 10.6.3",       "the memory cannot be accessed: it is unmapped or protected", "") \
	X(MEMORY_FORBIDDEN, "process_vm_readv(2)",  "the kernel does not let one process access the other's memory", "anyverbs doctor says why") \
	/* --- requests -------------------------------------------------------------------- */ \
	X(REQUEST_SERVICE,  "IBTA 1, 9.4",          "a {limit:type} queue pair does not support {wanted:opcode}", "RDMA READ and atomics need RC") \
	X(REQUEST_RD,       "IBTA 1, 9.4",          "max_rd_atomic of the queue pair is 0", "set it with ibv_modify_qp() on the way to RTS") \
	X(REQUEST_OPERANDS, "ibv_exp_post_send(3)", "no packet has room for the operands of an extended atomic operation", "between hosts there are the plain ones, of 8 B") \
	X(REQUEST_LENGTH,   "IBTA 1, 9.9",        "{wanted} B; a message may have at most {limit} B", "max_msg_sz of ibv_query_port() is the limit") \
	X(REQUEST_DATAGRAM, "IBTA 1, 9.8.3",        "{wanted} B; a datagram may have at most the port's MTU, {limit} B", "") \
	X(REQUEST_ATOMIC,   "IBTA 1, 9.9",        "{wanted} B of buffers; the operation returns {limit} B", "") \
	X(RESPONDER_ACCESS, "IBTA 1, 9.9",    "the responding queue pair permits {limit:access}, and {wanted:access} is needed", "set qp_access_flags of the responder with ibv_modify_qp()") \
	X(RESPONDER_RD,     "IBTA 1, 9.9",      "max_dest_rd_atomic of the responding queue pair is 0", "set it with ibv_modify_qp() on the way to RTR") \
	X(RESPONDER_SRQ,    "IBTA 1, A14",           "the XRC domain has no shared receive queue {wanted}", "") \
	X(ATOMIC_ALIGN,     "IBTA 1, 9.9",        "address {address} is not a multiple of {limit}", "") \
	X(TUNNEL_COMMAND,   "ibv_exp_reg_mr(3)",    "the region takes tunneled atomics only, and the payload is not one", "") \
	X(RECV_SHORT,       "IBTA 1, 9.9",      "a message of {wanted} B does not fit the receive request of {limit} B", "post larger receives") \
	X(DATAGRAM_ROOM,    "ibv_post_recv(3)",     "a datagram of {wanted} B does not fit the receive request of {limit} B: its first 40 B are for the GRH", "post receives of 40 B more than the largest datagram") \
	X(DATAGRAM_QKEY,    "IBTA 1, 9.8.3",        "the datagram has Q_Key {wanted:x}, the queue pair {limit:x}", "remote_qkey of the send request must be the qkey that the receiver set with IBV_QP_QKEY") \
	X(DATAGRAM_STATE,   "IBTA 1, 9.8.3",        "the queue pair is in state {state}, which takes no datagrams", "move it to RTR before the peer sends") \
	X(NO_RECV,          "ibv_post_recv(3)",     "no receive request is posted for it", "post receives before the peer sends: UC and UD do not wait for them") \
	X(DATAGRAM_NOBODY,  "ibv_post_send(3)",     "the datagram is for QP {wanted:qpn}, and there is no such UD queue pair", "compare remote_qpn of the send request with the receiver's qp_num") \
	X(RECV_CQ_FULL,     "ibv_create_cq(3)",       "the receive completion queue is full: {limit} entries", "create it with an entry for each request, and poll it") \
	X(SEND_CQ_FULL,     "ibv_create_cq(3)",       "the completion queue is full: {limit} entries", "create it with an entry for each request, and poll it") \
	X(CQ_HELD,          "anyverbs(7)",           "a process was stopped in the midst of a completion, and the queue was locked for 2 s", "continue that process, or end it") \
	X(INVALIDATE_KEY,   "IBTA 1, 10.6.7.2",       "SEND WITH INVALIDATE cannot invalidate key {key:x}: it is not a type 2 window bound to that queue pair", "") \
	X(RNR_RETRIES,      "IBTA 1, 9.7.5.2.8",    "the receiver had no receive posted: {wanted} RNR NAKs, rnr_retry {limit}", "post receives before the peer sends, or set rnr_retry to 7") \
	X(PEER_GONE,        "IBTA 1, 9.7.6.1",      "nobody answers: there is no QP {peer_qp} at that address, or its process has ended", "is the peer still running? Were QP number and GID exchanged correctly?") \
	X(PEER_NO_GID,      "ibv_modify_qp(3)",     "nobody is there: the GID of the address vector is all zero", "set grh.dgid to the GID of the peer; if that was zero when it was exchanged, it was read from an empty row of the peer's GID table") \
	X(PEER_SILENT,      "IBTA 1, 9.7.6.1",      "no answer from another host: no packet of QP {peer_qp} has come", "is its program running there? Does a firewall let UDP port 4791 through?") \
	X(PEER_NO_WAY,      "ip-route(8)",          "no answer from another host: no packets reach it, for want of a route or of a neighbour with that address", "does ip route get ADDRESS know the way? Is that host up?") \
	X(PEER_NO_PORT,     "IBTA 1, A17",          "no answer from another host: it says that nobody has UDP port 4791 there", "has its program ended, or not connected yet? Does a firewall reject the port?") \
	X(PEER_FIREWALL,    "nft(8)",               "no answer from another host: this host's firewall does not let UDP port 4791 out", "let it through, in both directions") \
	X(PORT_TAKEN,       "ibv_modify_qp(3)",     "the peer is on another host, and UDP port {wanted} of this host's address is taken: by rdma_rxe, another user, or another ANYVERBS_DIR", "anyverbs doctor tells by whom") \
	X(PEER_MTU,         "ibv_modify_qp(3)",     "no answer from another host: packets of {wanted} B and their headers are larger than the MTU of the way there", "choose a smaller path_mtu, or a larger MTU of the interfaces") \
	X(PEER_LENGTH,      "ibv_modify_qp(3)",     "no answer from another host that could be used: its packets have another length than {wanted} B, this queue pair's path_mtu", "give both queue pairs the same path_mtu") \
	X(PEER_REFUSED,     "IBTA 1, 9.7.5.2",      "QP {peer_qp} on another host has refused it: NAK {wanted:x}", "run anyverbs explain there") \
	X(PACKET_ORDER,     "IBTA 1, 9.7.4.1",      "a packet does not go on with the message that it is part of, or has the wrong length", "") \
	X(PEER_ELSEWHERE,   "IBTA 1, 9.7.6.1",      "nobody answers: the address is this host's, but it has no QP {peer_qp}: the number is wrong, or that of another container or user", "was the number exchanged in the right byte order? Both sides must run as one user and share the folder of the device (ANYVERBS_DIR)") \
	X(PEER_STATE,       "IBTA 1, 9.7.6.1",      "nobody answers: QP {peer_qp} is in state {state}", "move the peer's queue pair to RTR before this one sends") \
	X(PEER_OTHER,       "IBTA 1, 9.7.6.1",      "nobody answers: QP {peer_qp} is connected to QP {limit:qpn}", "each side's dest_qp_num must name the other side") \
	X(PEER_TYPE,        "IBTA 1, 9.7.6.1",      "nobody answers: QP {peer_qp} is of type {limit:type}, this one needs {wanted:type}", "create both with the same qp_type") \
	X(PEER_PSN,         "IBTA 1, 9.7.6.1",      "nobody answers: this queue pair sends PSN {wanted}, but QP {peer_qp} expects {limit}", "sq_psn of one side must be rq_psn of the other") \
	/* --- connection management ------------------------------------------------------- */ \
	X(CM_NO_LISTENER,   "rdma_listen(3)",       "nobody listens on port {wanted} of {gid}", "start the server first; compare address, port and port space with what it listens on") \
	X(CM_OTHER_PORTS,   "rdma_listen(3)",       "nobody listens on port {wanted} of {gid}: {limit} listener(s) of this host have other ports", "anyverbs stat cm shows who listens where") \
	X(CM_REFUSED,       "rdma_reject(3)",       "{gid} refuses a connection to port {wanted}: reason {limit}", "28: its program decided so; 3: it has no resources; 9: another kind of queue pair listens there") \
	X(CM_NO_ANSWER,     "rdma_connect(3)",      "no answer from {gid}, port {wanted}, to {limit} requests", "is that host up, and its program running? Does a firewall let UDP port 4791 through?") \
	X(CM_NOT_OURS,      "rdma_bind_addr(3)",    "{gid} is not an address of any device", "anyverbs info shows the addresses of devices") \
	X(CM_NO_ROUTE,      "ip-route(8)",          "this host knows no way to {gid}", "what does ip route get ADDRESS say?") \
	X(CM_PORT_TAKEN,    "rdma_bind_addr(3)",    "port {wanted} of {gid} is taken", "anyverbs stat cm shows by whom; RDMA_OPTION_ID_REUSEADDR shares it until somebody listens") \
	X(CM_STATE,         "rdma_cm(7)",           "the id is in state {wanted:phase}; this needs {limit:phases}", "rdma_bind_addr(), rdma_listen(), rdma_accept(); or rdma_resolve_addr(), rdma_resolve_route(), rdma_connect(): each once, after the event of the one before") \
	X(CM_LINK,          "rdma_bind_addr(3)",    "{gid} is a link-local address, and no interface is named", "set sin6_scope_id") \
	X(CM_FAMILY,        "rdma_resolve_addr(3)", "source and destination are of different address families", "") \
	X(CM_ADDRESS,       "rdma_resolve_addr(3)", "a destination of {wanted} B and a source of {limit} B, or reserved bits that are not 0", "") \
	X(CM_SERVICE,       "rdma_resolve_addrinfo(3)", "there is no subnet administrator, and so there are no services", "") \
	X(CM_PRIVATE,       "rdma_connect(3)",      "{wanted} B of private data; there is room for {limit} B", "") \
	X(CM_PARAMETERS,    "rdma_connect(3)",      "the connection has no parameters", "pass a struct rdma_conn_param") \
	X(CM_REASON,        "rdma_reject(3)",       "reason {wanted} is not one of programs", "") \
	X(CM_GROUP,         "rdma_join_multicast(3)", "the address is no multicast address, or the id is of connections", "use RDMA_PS_UDP") \
	X(CM_QP_TYPE,       "rdma_create_id(3)",    "a queue pair of type {wanted:type} does not go with port space {limit:x}", "") \
	X(CM_CHANNEL,       "rdma_migrate_id(3)",   "the id, or group, is of another event channel", "") \
	X(CM_NO_CHANNEL,    "rdma_migrate_id(3)",   "descriptor {wanted:d} is no event channel", "") \
	X(CM_OPTION,        "rdma_set_option(3)",   "a value of {wanted} B; the option has {limit} B", "") \
	X(CM_ACK_TIMEOUT,   "rdma_set_option(3)",   "RDMA_OPTION_ID_ACK_TIMEOUT is {wanted}; it may be 0 to 31, for RC and XRC", "") \
	X(CM_EVENT,         "rdma_notify(3)",       "event {wanted} cannot be told by programs", "rdma_notify() takes IBV_EVENT_COMM_EST, rdma_write_cm_event() RDMA_CM_EVENT_USER") \
	X(CM_QP_STATE,      "rdma_init_qp_attr(3)", "there are no attributes for state {wanted:state}", "only for INIT, RTR and RTS") \
	X(CM_INHERITED,     "fork(2)",              "the event channel was inherited over fork()", "open one in each process") \
	X(CM_REMOVED,       "rdma_get_cm_event(3)", "the device of this id is gone: RDMA_CM_EVENT_DEVICE_REMOVAL", "destroy the id, and make another one") \
	X(FLUSHED,          "ibv_modify_qp(3)",     "{count} request(s) in a row were flushed because the queue pair has failed", "the record before this one says why") \
	/* --- requests that change keys --------------------------------------------------- */ \
	X(BIND_WINDOW,      "IBTA 1, 10.6.7.2",     "there is no such memory window, or the new key has a different index", "") \
	X(BIND_PD,          "IBTA 1, 10.6.7.2",     "the window belongs to protection domain {region_pd}, the queue pair to {pd}", "") \
	X(BIND_FLAGS,       "ibv_bind_mw(3)",       "the window's access flags are {wanted:x}; the known flags are {limit:x}", "") \
	X(BIND_TYPE,        "IBTA 1, 10.6.7.2",     "a window of type 1 cannot be zero based, and needs a region unless its length is 0", "") \
	X(BIND_LENGTH,      "IBTA 1, 10.6.7.2",     "a window of type 2 needs a region and a length", "to unbind it, use IBV_WR_LOCAL_INV") \
	X(BIND_BOUND,       "IBTA 1, 10.6.7.2",     "the type 2 window is already bound", "invalidate it first") \
	X(BIND_REGION,      "IBTA 1, 10.6.7.2",     "key {key:x} does not belong to a region that windows can be bound to", "") \
	X(BIND_REGION_PD,   "IBTA 1, 10.6.7.2",     "the region belongs to protection domain {region_pd}, the queue pair to {pd}", "") \
	X(BIND_REGION_FLAG, "ibv_bind_mw(3)",       "the region permits {region_access}; a window needs IBV_ACCESS_MW_BIND, and no zero based region", "register it with IBV_ACCESS_MW_BIND") \
	X(BIND_RIGHTS,      "IBTA 1, 10.6.7.2",     "a writable window needs a region with local write access; the region permits {region_access}", "register it with IBV_ACCESS_LOCAL_WRITE") \
	X(BIND_RANGE,       "IBTA 1, 10.6.7.2",     "the window extends {wanted} B outside the region, which has {region_length} B at {region_address}", "") \
	X(INVALIDATE_UNBOUND, "IBTA 1, 10.6.7.2",     "key {key:x} is not the current key of a window bound to this queue pair", "") \
	X(INVALIDATE_WINDOW, "IBTA 1, 10.6.7.2",      "key {key:x} does not belong to a memory window", "deregister regions with ibv_dereg_mr()") \
	X(UMR_SIZE,         "UMR",                  "max_klm_list_size {wanted}; a list may have 1 to {limit} elements", "") \
	X(UMR_KEY,          "UMR",                  "the key was not created by ibv_exp_create_mr(), or not in this context", "") \
	X(UMR_QP,           "UMR",                  "the queue pair was not created with IBV_EXP_QP_CREATE_UMR", "") \
	X(UMR_TYPE,         "UMR",                  "umr_type {wanted:d} does not exist", "") \
	X(UMR_FIXED,        "UMR",                  "a list of elements of one size needs a key created with IBV_EXP_MR_FIXED_BUFFER_SIZE, and such a key needs that list", "") \
	X(UMR_COUNT,        "UMR",                  "{wanted} elements; the key has room for 1 to {limit}", "") \
	X(UMR_INLINE,       "UMR",                  "{wanted} elements inline; the queue pair accepts at most {limit}", "ask for more max_inl_send_klms, or use a list of ibv_exp_alloc_mkey_list_memory()") \
	X(UMR_CONTAINER,    "UMR",                  "memory_objects is no list of this context, or has no room for {wanted} elements", "") \
	X(UMR_LIST,         "UMR",                  "the list of elements, their strides, or their number of repetitions is missing", "") \
	X(UMR_ELEMENT,      "UMR",                  "an element names no region of this context", "") \
	X(UMR_ENTITY,       "UMR",                  "an element of {wanted} B in a list of elements of one size, which is 1 to {limit} B", "only the last may be shorter") \
	X(UMR_RANGE,        "UMR",                  "the address of an element, or the sum of all lengths, does not fit 64 bits", "") \
	X(BIND_QP,          "ibv_exp_bind_mw(3)",   "the queue pair is missing, or of another context than the window", "") \
	X(UMR_FILL,         "UMR",                  "key {key:x} was not created by ibv_exp_create_mr(), belongs to another protection domain, or has no room for {wanted} elements", "") \
	/* --- events ---------------------------------------------------------------------- */ \
	X(CQ_OVERRUN,       "ibv_create_cq(3)",       "a completion did not fit: all {limit} entries are waiting to be polled", "create it with an entry for each request, and poll it") \
	X(FATAL,            "ibv_get_async_event(3)", "the device has failed", "close the context and open the device again") \
	X(PORT_DOWN,        "ibv_get_async_event(3)", "the port is down", "is the host's interface up? anyverbs info says what the port follows") \
	X(EXECUTOR_DIED,    "ibv_modify_qp(3)",     "a process died while it was executing a request of this queue pair", "") \
	X(STRICT_WRITE_ORDER, "IBTA 1, 9.5, o9-20", "the last {wanted} B landed {limit} ns before the others; the order of a WRITE's bytes is not defined", "that they are there, say only its completion, and that of a message behind it") \
	X(STRICT_READ_ORDER, "IBTA 1, 9.5, o9-20", "the last {wanted} B landed {limit} ns before the others; the order of a READ's bytes is not defined", "only its completion says that they are there") \
	X(STRICT_RECV_BUFFER, "ibv_post_recv(3)", "its last {wanted} B landed {limit} ns before the others, in a receive buffer full of garbage", "the buffer is the device's until the completion") \
	X(STRICT_RECV_FAILED, "ibv_poll_cq(3)", "the {limit} B of this receive request's buffer, and fields that this completion leaves undefined are garbage", "fill the buffer again before you use it") \
	X(STRICT_USED_EARLY, "IBTA 1, 9.5, o9-20", "its last {wanted} B landed before the others, and somebody stored there, {limit} ns after the post and before the completion", "only its completion says that they are there: wait for it, or for that of a message behind it") \
	X(STRICT_LATE_READ, "ibv_post_send(3)", "the program changed these bytes within {limit} ns of the post; they were sent as they are now", "leave them as they are until the completion") \
	X(STRICT_LEFT_BEHIND, "ibv_destroy_qp(3)", "it was destroyed with {limit} completions that nobody had polled; they are still there", "poll until the queue is empty before you destroy it, or look at qp_num") \
	X(STRICT_LATE_EVENTS, "ibv_get_async_event(3)", "its event comes {limit} ns late", "wait for it: nobody says how long it takes") \
	X(STRICT_KEYS, "ibv_dereg_mr(3)", "the number of its key is one of a region that was deregistered before: who still has that, reaches this region", "tell the peer before you deregister, or end its connection") \
	X(STRICT_ATOMICS, "IBTA 1, 9.4.5; ibv_query_device(3)", "between its read and its write the program stored to these 8 B, and that is lost", "atomic_cap is IBV_ATOMIC_HCA: where the processor stores, too, let the device do it") \
	X(STRICT_DATAGRAMS, "IBTA 1, 9.8.3", "lost on its way: of unreliable services nobody promises that it arrives", "send again what is not answered in time") \
	X(STRICT_DOUBLED, "IBTA 1, 9.8.3; RFC 768", "it arrives twice: of datagrams nobody promises that they arrive once", "number them, and drop what has come") \
	X(STRICT_OVERTAKEN, "IBTA 1, 9.8.3; RFC 768", "it arrives before the one in front of it: of datagrams nobody promises an order", "number them") \
	X(STRICT_LOST, "IBTA 1, 9.7.6.1", "lost on its way, and to be sent again after the timeout", "networks lose packets: set timeout and retry_cnt") \
	X(STRICT_FENCES, "IBTA 1, 10.8.3.3", "executed before the READ in front of it: without a fence, the two have no order", "set IBV_SEND_FENCE, or wait for the completion of the READ") \
	X(STRICT_PAGING, "IBTA 1, 9.7.5.2.8", "the responder was not ready: its memory is on demand, and had to be paged in", "set rnr_retry to 7: try as often as it takes") \
	X(STRICT_UNDEFINED, "ibv_poll_cq(3)", "fields that this completion leaves undefined are garbage", "of a failed completion only wr_id, status, qp_num and vendor_err are valid; of others, what ibv_poll_cq(3) says of its opcode") \
	X(STRICT_EVENTS, "ibv_get_cq_event(3)", "an event came, and no completion was there for it any more", "poll until the queue is empty; an event promises no completion") \
	X(MODEL_VERB,       "anyverbs_config(5)",   "{detail} has no such verb", "as= of ANYVERBS_DEVICES makes the device behave as that adapter; 'anyverbs devices -v' lists what it lacks") \
	X(MODEL_TYPE,       "anyverbs_config(5)",   "{detail} has no queue pairs of type {wanted:type}", "as= of ANYVERBS_DEVICES makes the device behave as that adapter; 'anyverbs devices -v' lists what it lacks") \
	X(MODEL_ACCESS,     "anyverbs_config(5)",   "{detail} has no memory regions with {wanted:access}", "as= of ANYVERBS_DEVICES makes the device behave as that adapter; 'anyverbs devices -v' lists what it lacks") \
	X(MODEL_OPCODE,     "anyverbs_config(5)",   "{detail} has no {wanted:opcode}", "as= of ANYVERBS_DEVICES makes the device behave as that adapter; 'anyverbs devices -v' lists what it lacks") \
	X(MODEL_READ,       "anyverbs_config(5)",   "{wanted:d} elements; {detail} reads into {limit} at most", "max_sge_rd of ibv_query_device() is the limit") \
	X(INJECTED,         "anyverbs_faults(5)",   "injected by fault rule {wanted} ({limit:fault}); the consequences are intended", "anyverbs faults list shows the rules, anyverbs faults clear removes them")
/* clang-format on */

enum av_check {
	AV_CHECK_NONE,
#define AV_CHECK_ENUM(id, clause, sentence, advice) AV_CHECK_##id,
	AV_CHECKS(AV_CHECK_ENUM)
#undef AV_CHECK_ENUM
		AV_CHECK_N,
	/* Results of looking up a key (memory/translate.h). They are never in a record. */
	AV_CHECK_BUSY,	   /* the region is being re-registered: release all keys, and retry */
	AV_CHECK_TUNNELED, /* a payload for a region of tunneled atomics; its range is unchecked */
};

struct av_check_row {
	const char *name;
	const char *clause, *sentence, *advice;
};

/* The row of a check. An unknown number gets the row of AV_CHECK_NONE. */
const struct av_check_row *av_check_row(unsigned int check);

/* The check that stands for a verb's errno value when no code has noted a check. */
enum av_check av_check_of_errno(int err);

/* The check for a peer's missing answer. @err: the kernel's error as a positive errno; 0: none */
enum av_check av_check_of_silence(int err);

/* === fields ====================================================================== */

/* The fields of a record: one table for the sentences ({name}) and for JSON. */

/* How a field is written. In JSON the forms up to AV_FIELD_ID are numbers. */
enum av_field_form {
	AV_FIELD_DEC,
	AV_FIELD_SIGNED,
	AV_FIELD_HEX,
	AV_FIELD_QPN, /* as programs print it: 0x020011 */
	AV_FIELD_ID,  /* decimal, or hex if it is larger than 32 bits: a pointer */
	AV_FIELD_TEXT,
	AV_FIELD_CHECK,
	AV_FIELD_KIND,
	AV_FIELD_OBJECT,
	AV_FIELD_VERB,
	AV_FIELD_OPCODE,
	AV_FIELD_STATUS,
	AV_FIELD_ERRNO,
	AV_FIELD_EVENT,
	AV_FIELD_STATE,
	AV_FIELD_MTU,
	AV_FIELD_TYPE, /* enum ibv_qp_type */
	AV_FIELD_ACCESS,
	AV_FIELD_MASK, /* enum ibv_qp_attr_mask */
	AV_FIELD_REGION_KIND,
	AV_FIELD_FAULT,
	AV_FIELD_GID,
	AV_FIELD_CM_PHASE,
	AV_FIELD_CM_PHASES, /* a set of phases: AV_CM_IN() */
	AV_FIELD_FORM_N
};

struct av_field {
	const char *name;
	uint16_t offset, bytes;
	uint8_t form;	/* enum av_field_form */
	uint32_t group; /* bits of AV_HAS_, any of which makes the field valid; 0: always valid */
};

#define AV_FIELD_TEXT_MAX 160 /* longest text of a field, NUL included */

/* The whole table. @count: out. All functions of fields are pure. */
const struct av_field *av_fields(unsigned int *count);

/* The field of that name; NULL: unknown. */
const struct av_field *av_field_find(struct av_word name);

bool av_field_is_set(const struct av_field *field, const struct av_flight_record *record);

/* The value of a field whose form is neither AV_FIELD_TEXT nor AV_FIELD_GID. */
int64_t av_field_number(const struct av_field *field, const struct av_flight_record *record);

bool av_field_is_number(const struct av_field *field);

/* Write the field, cut to fit, with a NUL. @form: its own or a placeholder's; texts, GIDs: own */
void av_field_write(const struct av_field *field, unsigned int form,
		    const struct av_flight_record *record, char text[AV_FIELD_TEXT_MAX]);

/* Names of completion statuses without "IBV_WC_", indexed by enum ibv_wc_status. */
#define AV_STATUS_N 22
extern const char *const av_status_name[AV_STATUS_N];

/* The word for a value, in a form that has a list of words; NULL: there is no word. */
const char *av_field_word(unsigned int form, uint64_t value);

/* The form that a placeholder {name:form} names; AV_FIELD_FORM_N: unknown. */
unsigned int av_field_form(struct av_word name);

/* --- sentences ------------------------------------------------------------------- */

#define AV_EXPLAIN_MAX 1024 /* bytes of both lines, NUL included */

/*
 * Write a record in English: one line that says what failed, and a second line if the check has
 * advice. Each ends in a newline. Cuts what does not fit. Return: bytes written, without the NUL
 */
size_t av_explain(const struct av_flight_record *record, char text[AV_EXPLAIN_MAX]);

/* Write only @sentence, with its {fields} filled in, cut to @size bytes with NUL. */
void av_explain_sentence(const char *sentence, const struct av_flight_record *record, char *text,
			 size_t size);

/* === notes ======================================================================= */

/*
 * Recording a failure takes two steps. The code that finds a broken rule notes the check in the
 * thread's one pending record. The code that reports the failure to the program completes that
 * record, and appends it to the flight recorder. The next note overwrites an unreported record.
 * Context of all: any thread, any lock held; takes no lock; keeps errno
 */

#define AV_DIAG_ROW 16 /* most records that av_overcome() withdraws */

/* Begin and return the pending record. @wanted, @limit: the two values that the check compared. */
AV_COLD struct av_flight_record *av_diag_note(enum av_check check, uint64_t wanted, uint64_t limit);

/* Begin the pending record of a verb that is about to fail with @err. Return: @err */
static inline int av_refuse(int err, enum av_check check, uint64_t wanted, uint64_t limit)
{
	av_diag_note(check, wanted, limit)->error = err;
	return err;
}

/* av_refuse() for the device of that name: the process may have opened several. Return: @err */
AV_COLD int av_refuse_device(int err, enum av_check check, const char *name);

/* The pending record. Its check is AV_CHECK_NONE if no check was noted. */
AV_COLD struct av_flight_record *av_diag_pending(void);

/* Change the errno value of the pending record. Return: @err */
static inline int av_refuse_as(int err)
{
	av_diag_pending()->error = err;
	return err;
}

/* Write the text that replaces {detail} in the pending record's sentence; 63 bytes at most. */
AV_PRINTF(1, 2)
AV_COLD void av_diag_detail(const char *fmt, ...);

/* Add the queue pair's state to the pending record. @state: enum ibv_qp_state */
AV_COLD void av_diag_state(uint32_t state);

/*
 * Complete the pending record, append it to the flight recorder, and empty it. Of repeats within a
 * second, only the 2nd, 4th, 8th ... make a record, which replaces the one before.
 * Return: the record's number + 1; 0: none was made
 */
AV_COLD uint64_t av_report(void);

/* Append @record, without a change to the pending record. Return: as av_report() */
AV_COLD uint64_t av_report_beside(const struct av_flight_record *record);

/* Report that @verb fails: the pending record if of @err, else av_check_of_errno(). Return: @err */
AV_COLD int av_refused(enum av_verb verb, int err);

/*
 * @verb succeeds. If this thread's last record refuses @verb, the program has overcome that, or has
 * searched for a limit: withdraws up to AV_DIAG_ROW records of refusals in a row by that check.
 */
AV_COLD void av_overcome(enum av_verb verb);

/*
 * A verb on an object is about to fail with @err: add the object to the pending record. If that
 * does not have the errno value @err, begin one with av_check_of_errno().
 */
AV_COLD void av_refuse_object(int err, enum av_flight_object object, uint32_t number);

/* Empty the pending record: nothing has failed. */
AV_COLD void av_diag_drop(void);

/* The program opens a device or an event channel: read ANYVERBS_EXPLAIN, for av_explaining(). */
void av_diag_begin(void);

/* The process opens device @name. Until it opens a second one, records without a device name it. */
void av_diag_device(const char *name);

/*
 * With ANYVERBS_EXPLAIN=1 records also go to standard error. av_explain_others(), where the program
 * learns of a failure, writes others' about this process; one thread at a time; keeps errno.
 */
static inline bool av_explaining(void)
{
	extern _Atomic bool av_explain_on;

	return av_unlikely(__atomic_load_n((const bool *)&av_explain_on, __ATOMIC_RELAXED));
}
AV_COLD void av_explain_others(void);
