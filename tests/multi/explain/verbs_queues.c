/* SPDX-License-Identifier: MIT */
/* Verbs that refuse: queue pairs, and posting to them. */
#include <string.h>

#include "verbs.h"

#define KNOWN_QP_ATTR (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static int create_qp(struct ibv_qp_init_attr_ex *attr)
{
	return failed(ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr));
}

#define CREATE_QP(function, field)                            \
	static int function(uint64_t value)                   \
	{                                                     \
		struct ibv_qp_init_attr_ex attr = plain_qp(); \
		attr.field = (__typeof__(attr.field))value;   \
		return create_qp(&attr);                      \
	}
CREATE_QP(qp_send_wr, cap.max_send_wr)
CREATE_QP(qp_recv_wr, cap.max_recv_wr)
CREATE_QP(qp_send_sge, cap.max_send_sge)
CREATE_QP(qp_recv_sge, cap.max_recv_sge)
CREATE_QP(qp_inline, cap.max_inline_data)
CREATE_QP(qp_type, qp_type)
CREATE_QP(qp_send_cq, send_cq)
CREATE_QP(qp_recv_cq, recv_cq)

static int qp_srq(uint64_t unused)
{
	struct ibv_srq srq = {.context = n->ctx, .handle = 999};
	struct ibv_qp_init_attr_ex attr = plain_qp();

	attr.srq = &srq;
	return create_qp(&attr);
}

#define CREATE_QP_EX(function, bit, field)                      \
	static int function(uint64_t value)                     \
	{                                                       \
		struct ibv_qp_init_attr_ex attr = plain_qp();   \
		attr.comp_mask |= bit;                          \
		attr.field = (__typeof__(attr.field))value;     \
		return failed(ibv_create_qp_ex(n->ctx, &attr)); \
	}
CREATE_QP_EX(qp_mask, 0, comp_mask)
CREATE_QP_EX(qp_flags, IBV_QP_INIT_ATTR_CREATE_FLAGS, create_flags)
CREATE_QP_EX(qp_ops, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags)

static int qp_xrcd(uint64_t unused)
{
	struct ibv_xrcd xrcd = {.context = n->ctx};
	struct ibv_qp_init_attr_ex attr = plain_qp();

	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = &xrcd;
	return failed(ibv_create_qp_ex(n->ctx, &attr));
}

/* Of queue pair 0, which is in state RESET, and would go to INIT. */
#define MODIFY_QP(function, bit, field)                                              \
	static int function(uint64_t value)                                          \
	{                                                                            \
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1}; \
		attr.field = (__typeof__(attr.field))value;                          \
		return ibv_modify_qp(n->qp[0], &attr, KNOWN_QP_ATTR | (bit));        \
	}
MODIFY_QP(attr_port, 0, port_num)
MODIFY_QP(attr_pkey, 0, pkey_index)
MODIFY_QP(attr_alt_path, IBV_QP_ALT_PATH, alt_pkey_index)
MODIFY_QP(attr_path_mig, IBV_QP_PATH_MIG_STATE, path_mig_state)
MODIFY_QP(attr_mtu, IBV_QP_PATH_MTU, path_mtu)
MODIFY_QP(attr_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
MODIFY_QP(attr_dest_rd, IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
MODIFY_QP(attr_extra, IBV_QP_QKEY, qkey)
MODIFY_QP(attr_current, IBV_QP_CUR_STATE, cur_qp_state)
MODIFY_QP(attr_state, 0, qp_state)

static int attr_missing(uint64_t mask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	return ibv_modify_qp(n->qp[0], &attr, KNOWN_QP_ATTR & ~(int)mask);
}

static int destroy_other(uint64_t unused)
{
	struct ibv_qp qp = *n->qp[0];

	return ibv_destroy_qp(&qp);
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

static int post_recv(struct ibv_qp *qp, int num_sge)
{
	struct ibv_sge sge[NODE_SGE + 2] = {{0}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = num_sge}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static int post_in_reset(uint64_t unused)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	return post(n->qp[0], &wr);
}

static int post_recv_in_reset(uint64_t unused)
{
	return post_recv(n->qp[0], 0);
}

static int post_opcode(uint64_t opcode)
{
	struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode};

	return post(n->qp[1], &wr);
}

static int post_sge(uint64_t count)
{
	struct ibv_sge sge[NODE_SGE + 2] = {{0}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = (int)count};

	return post(n->qp[1], &wr);
}

static int post_no_list(uint64_t count)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .num_sge = (int)count};

	return post(n->qp[1], &wr);
}

static int post_recv_no_list(uint64_t count)
{
	struct ibv_recv_wr wr = {.num_sge = (int)count}, *bad;

	return ibv_post_recv(n->qp[1], &wr, &bad);
}

static int post_inline(uint64_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->arena, .length = (uint32_t)bytes};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};

	return post(n->qp[1], &wr);
}

static int post_inline_op(uint64_t opcode)
{
	struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode,
				 .send_flags = IBV_SEND_INLINE};

	return post(n->qp[1], &wr);
}

static int post_recv_sge(uint64_t count)
{
	return post_recv(n->qp[1], (int)count);
}

static int post_recv_full(uint64_t capacity)
{
	int err = 0;

	for (uint64_t i = 0; i <= capacity && err == 0; i++)
		err = post_recv(n->qp[1], 0);
	return err;
}

/* The peer has no receive for it: everything stays in the queue. */
static int post_full(uint64_t capacity)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	int err = 0;

	for (uint64_t i = 0; i <= capacity && err == 0; i++)
		err = post(n->qp[1], &wr);
	return err;
}

static int post_to_srq_of_others(uint64_t unused)
{
	struct ibv_srq srq = {.context = n->ctx, .handle = 999};
	struct ibv_recv_wr wr = {0}, *bad;

	return ibv_post_srq_recv(&srq, &wr, &bad);
}

static int post_ah(uint64_t unused)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp *qp;
	int err;

	init.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(n->pd, (struct ibv_qp_init_attr *)&init);
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	attr.qp_state = IBV_QPS_RTR;
	err = err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	err = err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	err = err ? err : post(qp, &wr);
	ibv_destroy_qp(qp);
	return err;
}

/* clang-format off */
static const struct verb_row rows[] = {
	{"damaged QP",          "ibv_destroy_qp", AV_CHECK_OBJECT_UNKNOWN, ENOENT, destroy_other, 0, ANY, ANY, false},
	{"max_send_wr",         "ibv_create_qp", AV_CHECK_QP_SEND_WR,     EINVAL, qp_send_wr, 1 << 30, 1 << 30, ANY, false},
	{"max_recv_wr",         "ibv_create_qp", AV_CHECK_QP_RECV_WR,     EINVAL, qp_recv_wr, 1 << 30, 1 << 30, ANY, false},
	{"max_send_sge",        "ibv_create_qp", AV_CHECK_QP_SEND_SGE,    EINVAL, qp_send_sge, 1000, 1000, ANY, false},
	{"max_recv_sge",        "ibv_create_qp", AV_CHECK_QP_RECV_SGE,    EINVAL, qp_recv_sge, 1000, 1000, ANY, false},
	{"max_inline_data",     "ibv_create_qp", AV_CHECK_QP_INLINE,      EINVAL, qp_inline, 1 << 20, 1 << 20, ANY, false},
	{"QP type",             "ibv_create_qp", AV_CHECK_QP_TYPE,        EINVAL, qp_type, 77, 77, ANY, false},
	{"raw packets",         "ibv_create_qp", AV_CHECK_QP_TYPE_LACKING, EOPNOTSUPP, qp_type, IBV_QPT_RAW_PACKET, IBV_QPT_RAW_PACKET, ANY, false},
	{"no send CQ",          "ibv_create_qp", AV_CHECK_QP_SEND_CQ,     EINVAL, qp_send_cq, 0, ANY, ANY, false},
	{"no receive CQ",       "ibv_create_qp", AV_CHECK_QP_RECV_CQ,     EINVAL, qp_recv_cq, 0, ANY, ANY, false},
	{"no such SRQ",         "ibv_create_qp", AV_CHECK_QP_SRQ,         EINVAL, qp_srq, 0, ANY, ANY, false},
	{"no such XRC domain",  "ibv_create_qp", AV_CHECK_QP_XRCD,        EINVAL, qp_xrcd, 0, ANY, ANY, false},
	{"QP's mask",           "ibv_create_qp_ex", AV_CHECK_QP_MASK,     EOPNOTSUPP, qp_mask, 1u << 20, 1u << 20, ANY, false},
	{"create_flags",        "ibv_create_qp_ex", AV_CHECK_QP_CREATE_FLAGS, EOPNOTSUPP, qp_flags, 4, 4, ANY, false},
	{"send_ops_flags",      "ibv_create_qp_ex", AV_CHECK_QP_SEND_OPS, EOPNOTSUPP, qp_ops, 1ull << 40, 1ull << 40, ANY, false},
	{"port_num",            "ibv_modify_qp", AV_CHECK_ATTR_PORT,      EINVAL, attr_port, 2, 2, 1, true},
	{"pkey_index",          "ibv_modify_qp", AV_CHECK_ATTR_PKEY,      EINVAL, attr_pkey, 5, 5, 0, true},
	{"alternate path",      "ibv_modify_qp", AV_CHECK_ATTR_ALT_PATH,  EINVAL, attr_alt_path, 0, ANY, ANY, true},
	{"path_mig_state",      "ibv_modify_qp", AV_CHECK_ATTR_PATH_MIG,  EINVAL, attr_path_mig, IBV_MIG_ARMED, IBV_MIG_ARMED, IBV_MIG_MIGRATED, true},
	{"path_mtu",            "ibv_modify_qp", AV_CHECK_ATTR_MTU,       EINVAL, attr_mtu, 7, 7, ANY, true},
	{"max_rd_atomic",       "ibv_modify_qp", AV_CHECK_ATTR_RD_ATOMIC, EINVAL, attr_rd_atomic, 255, 255, ANY, true},
	{"max_dest_rd_atomic",  "ibv_modify_qp", AV_CHECK_ATTR_DEST_RD,   EINVAL, attr_dest_rd, 255, 255, ANY, true},
	{"attribute too many",  "ibv_modify_qp", AV_CHECK_STATE_EXTRA,    EINVAL, attr_extra, 0, IBV_QP_QKEY, KNOWN_QP_ATTR & ~IBV_QP_STATE, true},
	{"attribute missing",   "ibv_modify_qp", AV_CHECK_STATE_MISSING,  EINVAL, attr_missing, IBV_QP_PORT, IBV_QP_PORT, KNOWN_QP_ATTR & ~IBV_QP_STATE, true},
	{"cur_qp_state",        "ibv_modify_qp", AV_CHECK_STATE_CURRENT,  EINVAL, attr_current, IBV_QPS_INIT, IBV_QPS_INIT, ANY, true},
	{"negative cur_qp_state", "ibv_modify_qp", AV_CHECK_STATE_CURRENT, EINVAL, attr_current, (uint64_t)-1, (uint64_t)-1, ANY, true},
	{"RESET to RTS",        "ibv_modify_qp", AV_CHECK_STATE_CHANGE,   EINVAL, attr_state, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RESET, true},
	{"send in RESET",       "ibv_post_send", AV_CHECK_POST_SEND_STATE, EINVAL, post_in_reset, 0, IBV_QPS_RESET, ANY, true},
	{"receive in RESET",    "ibv_post_recv", AV_CHECK_POST_RECV_STATE, EINVAL, post_recv_in_reset, 0, IBV_QPS_RESET, ANY, true},
	{"opcode",              "ibv_post_send", AV_CHECK_POST_OPCODE,    EINVAL, post_opcode, 77, 77, ANY, true},
	{"elements",            "ibv_post_send", AV_CHECK_POST_SEND_SGE,  EINVAL, post_sge, NODE_SGE + 1, NODE_SGE + 1, NODE_SGE, true},
	{"no list",             "ibv_post_send", AV_CHECK_POST_SEND_LIST, EINVAL, post_no_list, 2, 2, 0, true},
	{"inline data",         "ibv_post_send", AV_CHECK_POST_INLINE,    EINVAL, post_inline, 4000, 4000, 512, true},
	{"inline READ",         "ibv_post_send", AV_CHECK_POST_INLINE_OP, EINVAL, post_inline_op, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, ANY, true},
	{"no address handle",   "ibv_post_send", AV_CHECK_POST_AH,        EINVAL, post_ah, 0, ANY, ANY, false},
	{"elements of a receive", "ibv_post_recv", AV_CHECK_POST_RECV_SGE, EINVAL, post_recv_sge, NODE_SGE + 1, NODE_SGE + 1, NODE_SGE, true},
	{"no list of a receive", "ibv_post_recv", AV_CHECK_POST_RECV_LIST, EINVAL, post_recv_no_list, 2, 2, 0, true},
	{"receive queue full",  "ibv_post_recv", AV_CHECK_POST_RECV_FULL, ENOMEM, post_recv_full, 16, 16, 16, true},
	{"send queue full",     "ibv_post_send", AV_CHECK_POST_SEND_FULL, ENOMEM, post_full, 16, 16, 16, true},
	{"no such SRQ to post to", "ibv_post_srq_recv", AV_CHECK_POST_OBJECT, EINVAL, post_to_srq_of_others, 0, ANY, ANY, false},
};
/* clang-format on */

void verbs_of_queues(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		verb_run(&rows[i]);
}
