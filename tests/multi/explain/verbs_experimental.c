/* SPDX-License-Identifier: MIT */
/* Experimental verbs that refuse. */
#include <errno.h>
#include <string.h>

#include "lib/exp_objects.h"
#include "verbs.h"

#define BYTES  4096u
#define RIGHTS (IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE)
#define INLINE 2u /* elements of a UMR request */
#define ROOM   4u /* elements of a key's list */

/* --- what a context has ---------------------------------------------------------- */

static int values(uint64_t wanted)
{
	struct ibv_exp_values v;

	return -ibv_exp_query_values(n->ctx, (int)wanted, &v);
}

static int thread_model(uint64_t model)
{
	struct ibv_exp_res_domain_init_attr attr = {.comp_mask = IBV_EXP_RES_DOMAIN_THREAD_MODEL,
						    .thread_model =
							    (enum ibv_exp_thread_model)model};

	return failed(ibv_exp_create_res_domain(n->ctx, &attr));
}

static int message_model(uint64_t model)
{
	struct ibv_exp_res_domain_init_attr attr = {.comp_mask = IBV_EXP_RES_DOMAIN_MSG_MODEL,
						    .msg_model = (enum ibv_exp_msg_model)model};

	return failed(ibv_exp_create_res_domain(n->ctx, &attr));
}

static int no_domain(uint64_t unused)
{
	return ibv_exp_destroy_res_domain(n->ctx, NULL, NULL);
}

static int setting(uint64_t unused)
{
	return ibv_exp_setenv(n->ctx, "a=b", "", 1) ? errno : 0;
}

static int setting_long(uint64_t bytes)
{
	static char value[8192];
	struct ibv_context *own = node_open_device();
	int err;

	memset(value, 'x', bytes);
	err = ibv_exp_use_priv_env(own) || ibv_exp_setenv(own, "A", value, 1) ? errno : 0;
	ibv_close_device(own);
	return err;
}

static int port_mask(uint64_t mask)
{
	struct ibv_exp_port_attr attr = {.comp_mask = (uint32_t)mask};

	return -ibv_exp_query_port(n->ctx, 1, &attr);
}

static int port_fields(uint64_t mask)
{
	struct ibv_exp_port_attr attr = {.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1,
					 .mask1 = (uint32_t)mask};

	return -ibv_exp_query_port(n->ctx, 1, &attr);
}

static int open_mask(uint64_t mask)
{
	struct ibv_exp_open_device_attr attr = {.comp_mask = (uint32_t)mask};

	return failed(ibv_exp_open_device(n->ctx->device, &attr));
}

static int gid_mask(uint64_t mask)
{
	struct ibv_exp_gid_attr attr = {.comp_mask = (uint32_t)mask};

	return ibv_exp_query_gid_attr(n->ctx, 1, 0, &attr);
}

/* --- queues ---------------------------------------------------------------------- */

static int cq(struct ibv_exp_cq_init_attr attr)
{
	return failed(ibv_exp_create_cq(n->ctx, 1, NULL, NULL, 0, &attr));
}

static int cq_flags(uint64_t flags)
{
	return cq((struct ibv_exp_cq_init_attr){.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
						.flags = (uint32_t)flags});
}

static int cq_domain(uint64_t unused)
{
	return cq((struct ibv_exp_cq_init_attr){.comp_mask = IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN});
}

static int cq_modify(uint64_t mask)
{
	struct ibv_exp_cq_attr attr = {.comp_mask = 0};

	return ibv_exp_modify_cq(n->cq[0], &attr, (int)mask);
}

static int cq_caps(uint64_t flags)
{
	struct ibv_exp_cq_attr attr = {.cq_cap_flags = (uint32_t)flags};

	return ibv_exp_modify_cq(n->cq[0], &attr, IBV_EXP_CQ_CAP_FLAGS);
}

static struct ibv_exp_qp_init_attr plain_exp(uint32_t mask)
{
	return (struct ibv_exp_qp_init_attr){
		.qp_type = IBV_QPT_RC,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | mask,
		.pd = n->pd,
	};
}

#define CREATE_QP(function, bits, field)                            \
	static int function(uint64_t value)                         \
	{                                                           \
		struct ibv_exp_qp_init_attr attr = plain_exp(bits); \
		attr.field = (__typeof__(attr.field))value;         \
		return failed(ibv_exp_create_qp(n->ctx, &attr));    \
	}
CREATE_QP(qp_pd, IBV_EXP_QP_INIT_ATTR_PORT, pd)
CREATE_QP(qp_type, IBV_EXP_QP_INIT_ATTR_PORT, qp_type)
CREATE_QP(qp_flags, IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, exp_create_flags)
CREATE_QP(qp_klms, IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS, max_inl_send_klms)
CREATE_QP(qp_operands, IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, max_atomic_arg)
CREATE_QP(qp_port, IBV_EXP_QP_INIT_ATTR_PORT, port_num)
CREATE_QP(qp_tso, IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER, max_tso_header)
CREATE_QP(qp_domain, IBV_EXP_QP_INIT_ATTR_RES_DOMAIN, res_domain)

static int modify_mask(uint64_t mask)
{
	struct ibv_exp_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	return ibv_exp_modify_qp(n->qp[0], &attr, mask);
}

/* --- memory ---------------------------------------------------------------------- */

static int reg(struct ibv_exp_reg_mr_in in)
{
	in.pd = n->pd;
	if (!in.length)
		in.length = BYTES;
	return failed(ibv_exp_reg_mr(&in));
}

#define REG(function, ...)                                           \
	static int function(uint64_t value)                          \
	{                                                            \
		return reg((struct ibv_exp_reg_mr_in){__VA_ARGS__}); \
	}
REG(reg_right, .addr = n->arena, .exp_access = value)
REG(reg_zero_based, .addr = n->arena, .exp_access = IBV_EXP_ACCESS_MW_ZERO_BASED)
REG(reg_relaxed, .addr = n->arena, .exp_access = IBV_EXP_ACCESS_RELAXED)
REG(reg_create_flags, .comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS, .create_flags = (uint32_t)value)
REG(reg_no_dm, .comp_mask = IBV_EXP_REG_MR_DM)
REG(allocate_at, .addr = n->arena, .exp_access = IBV_EXP_ACCESS_ALLOCATE_MR)
REG(allocate_share, .length = value,
    .exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_SHARED_MR_USER_READ)
REG(allocate_no_rdma, .exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_NO_RDMA)
REG(allocate_on_demand, .exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_ON_DEMAND)
REG(allocate_askew, .addr = (void *)(uintptr_t)value, .comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS,
    .create_flags = IBV_EXP_REG_MR_CREATE_CONTIG)

static int shared_handle(uint64_t handle)
{
	struct ibv_exp_reg_shared_mr_in in = {.pd = n->pd,
					      .mr_handle = (uint32_t)handle,
					      .exp_access = IBV_EXP_ACCESS_LOCAL_WRITE};

	return failed(ibv_exp_reg_shared_mr(&in));
}

static int rereg(uint64_t flags)
{
	return ibv_exp_rereg_mr(n->mr[KEY_FULL], (int)flags, n->pd, NULL, 0, 0, NULL);
}

static int prefetch_flags(uint64_t flags)
{
	struct ibv_exp_prefetch_attr attr = {
		.flags = (uint32_t)flags, .addr = n->arena, .length = BYTES};

	return ibv_exp_prefetch_mr(n->mr[KEY_FULL], &attr);
}

static int prefetch_not_on_demand(uint64_t unused)
{
	return prefetch_flags(0);
}

static int dm_direction(uint64_t direction)
{
	struct ibv_exp_alloc_dm_attr attr = {.length = 64};
	struct ibv_exp_dm *dm = ibv_exp_alloc_dm(n->ctx, &attr);
	struct ibv_exp_memcpy_dm_attr copy = {.memcpy_dir = (enum ibv_exp_dm_memcpy_dir)direction,
					      .host_addr = n->arena,
					      .length = 8};
	int err = ibv_exp_memcpy_dm(dm, &copy);

	ibv_exp_free_dm(dm);
	return err;
}

static int dm_mask(uint64_t mask)
{
	struct ibv_exp_alloc_dm_attr attr = {.length = 64, .comp_mask = (uint32_t)mask};

	return failed(ibv_exp_alloc_dm(n->ctx, &attr));
}

static int bind_nowhere(uint64_t unused)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_exp_mw_bind bind = {.mw = mw};
	int err = ibv_exp_bind_mw(&bind);

	ibv_dealloc_mw(mw);
	return err;
}

/* --- keys made of keys, and requests --------------------------------------------- */

static struct ibv_qp *umr_qp;
static struct ibv_mr *key, *fixed_key;

static struct ibv_mr *create_key(uint32_t flags, uint32_t room)
{
	struct ibv_exp_create_mr_in in = {.pd = n->pd,
					  .attr = {.max_klm_list_size = room,
						   .create_flags = flags,
						   .exp_access_flags = RIGHTS}};

	return ibv_exp_create_mr(&in);
}

static int key_flags(uint64_t flags)
{
	return failed(create_key((uint32_t)flags, ROOM));
}

static int key_room(uint64_t room)
{
	return failed(create_key(IBV_EXP_MR_INDIRECT_KLMS, (uint32_t)room));
}

static int query_plain(uint64_t unused)
{
	struct ibv_exp_mkey_attr attr = {.comp_mask = 0};

	return ibv_exp_query_mkey(n->mr[KEY_FULL], &attr);
}

static int post_to(struct ibv_qp *qp, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;

	return ibv_exp_post_send(qp, wr, &bad);
}

/* A request that is in order, but for what a row changes. */
static struct ibv_exp_mem_region piece[8];
static struct ibv_exp_send_wr fill_request(void)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	for (size_t i = 0; i < COUNT_OF(piece); i++)
		piece[i] = (struct ibv_exp_mem_region){(uintptr_t)n->arena, n->mr[KEY_FULL], 64};
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.exp_access = RIGHTS;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.base_addr = 0x1000;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = piece;
	return wr;
}

#define FILL(function, ...)                                 \
	static int function(uint64_t value)                 \
	{                                                   \
		struct ibv_exp_send_wr wr = fill_request(); \
		__VA_ARGS__;                                \
		return post_to(umr_qp, &wr);                \
	}
FILL(umr_flags, wr.exp_send_flags |= value)
FILL(umr_plain_key, wr.ext_op.umr.modified_mr = n->mr[KEY_FULL])
FILL(umr_type, wr.ext_op.umr.umr_type = (uint32_t)value)
FILL(umr_fixed, wr.ext_op.umr.modified_mr = fixed_key)
FILL(umr_count, wr.ext_op.umr.num_mrs = (uint32_t)value)
FILL(umr_inline, wr.ext_op.umr.num_mrs = (uint32_t)value)
FILL(umr_container, wr.exp_send_flags = 0)
FILL(umr_access, wr.ext_op.umr.exp_access = value)
FILL(umr_list, wr.ext_op.umr.mem_list.mem_reg_list = NULL)
FILL(umr_element, piece[0].mr = NULL)
FILL(umr_entity, piece[0].length = 0; wr.ext_op.umr.modified_mr = fixed_key;
     wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST_FIXED_SIZE)
FILL(umr_range, piece[0].base_addr = UINT64_MAX)
FILL(exp_opcode, wr.exp_opcode = (enum ibv_exp_wr_opcode)value)
FILL(exp_flags, wr.exp_opcode = IBV_EXP_WR_SEND; wr.exp_send_flags = value)
FILL(exp_operand, wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
     wr.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE;
     wr.ext_op.masked_atomics.log_arg_sz = (uint32_t)value)
FILL(exp_no_window, wr.exp_opcode = IBV_EXP_WR_BIND_MW; wr.exp_send_flags = 0; wr.bind_mw.mw = NULL;
     memset(&wr.wr, 0, sizeof(wr.wr)))

static int umr_qp_plain(uint64_t unused)
{
	struct ibv_exp_send_wr wr = fill_request();

	return post_to(n->qp[1], &wr);
}

static int nop_in_reset(uint64_t unused)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_NOP;
	return post_to(umr_qp, &wr);
}

/* clang-format off */
static const struct verb_row rows[] = {
	{"values",              "ibv_exp_query_values", AV_CHECK_FLAGS,   EINVAL, values, 1 << 9, 1 << 9, ANY, false},
	{"thread model",        "ibv_exp_create_res_domain", AV_CHECK_RES_MODEL, EINVAL, thread_model, 9, 9, ANY, false},
	{"message model",       "ibv_exp_create_res_domain", AV_CHECK_RES_MODEL, EINVAL, message_model, 9, 9, ANY, false},
	{"no resource domain",  "ibv_exp_destroy_res_domain", AV_CHECK_TD_UNKNOWN, EINVAL, no_domain, 0, 0, 0, false},
	{"name of a setting",   "ibv_exp_setenv", AV_CHECK_SETTING,       EINVAL, setting, 0, ANY, ANY, false},
	{"value of a setting",  "ibv_exp_setenv", AV_CHECK_SETTING_LONG,  EINVAL, setting_long, 5000, 5000, 4096, false},
	{"port's mask",         "ibv_exp_query_port", AV_CHECK_COMP_MASK, EINVAL, port_mask, 1 << 9, 1 << 9, ANY, false},
	{"port's fields",       "ibv_exp_query_port", AV_CHECK_FLAGS,     EINVAL, port_fields, 1 << 30, 1 << 30, ANY, false},
	{"device's mask",       "ibv_exp_open_device", AV_CHECK_COMP_MASK, EINVAL, open_mask, 1 << 9, 1 << 9, ANY, false},
	{"mask of a GID",       "ibv_exp_query_gid_attr", AV_CHECK_COMP_MASK, EINVAL, gid_mask, 1 << 9, 1 << 9, ANY, false},
	{"CQ's flags",          "ibv_exp_create_cq", AV_CHECK_CQ_FLAGS,   EINVAL, cq_flags, 1 << 30, 1 << 30, ANY, false},
	{"CQ's domain",         "ibv_exp_create_cq", AV_CHECK_TD_UNKNOWN, EINVAL, cq_domain, 0, ANY, ANY, false},
	{"CQ's change",         "ibv_exp_modify_cq", AV_CHECK_CQ_MODIFY,  EINVAL, cq_modify, 1 << 9, 1 << 9, ANY, false},
	{"CQ's unknown capability", "ibv_exp_modify_cq", AV_CHECK_FLAGS,  EINVAL, cq_caps, 1 << 9, 1 << 9, ANY, false},
	{"QP without PD",       "ibv_exp_create_qp", AV_CHECK_PD_UNKNOWN, EINVAL, qp_pd, 0, ANY, ANY, false},
	{"QP without XRC domain", "ibv_exp_create_qp", AV_CHECK_QP_XRCD,  EINVAL, qp_type, IBV_QPT_XRC_RECV, ANY, ANY, false},
	{"QP's flags",          "ibv_exp_create_qp", AV_CHECK_FLAGS,      EINVAL, qp_flags, 1u << 30, 1u << 30, ANY, false},
	{"QP for UMR",          "ibv_exp_create_qp", AV_CHECK_QP_UMR,     EINVAL, qp_klms, 3, 3, ANY, false},
	{"QP's operands",       "ibv_exp_create_qp", AV_CHECK_QP_OPERANDS, EINVAL, qp_operands, 4096, 4096, ANY, false},
	{"QP's port",           "ibv_exp_create_qp", AV_CHECK_ATTR_PORT,  EINVAL, qp_port, 7, 7, 1, false},
	{"QP with TSO",         "ibv_exp_create_qp", AV_CHECK_QP_FEATURE, ENOTSUP, qp_tso, 64, ANY, ANY, false},
	{"QP's domain",         "ibv_exp_create_qp", AV_CHECK_TD_UNKNOWN, EINVAL, qp_domain, 0, ANY, ANY, false},
	{"change's mask",       "ibv_exp_modify_qp", AV_CHECK_ATTR_MASK,  EINVAL, modify_mask, 1ull << 40, 1ull << 40, ANY, false},
	{"right that is none",  "ibv_exp_reg_mr", AV_CHECK_MR_FLAGS,      EINVAL, reg_right, 1ull << 60, 1ull << 60, ANY, false},
	{"region with a window's right", "ibv_exp_reg_mr", AV_CHECK_MR_ZERO_BASED, EINVAL, reg_zero_based, 0, ANY, ANY, false},
	{"relaxed, not on demand", "ibv_exp_reg_mr", AV_CHECK_MR_RELAXED, EINVAL, reg_relaxed, 0, BYTES, ANY, false},
	{"region's flags",      "ibv_exp_reg_mr", AV_CHECK_FLAGS,         EINVAL, reg_create_flags, 8, 8, ANY, false},
	{"region of no device memory", "ibv_exp_reg_mr", AV_CHECK_DM_UNKNOWN, EINVAL, reg_no_dm, 0, ANY, ANY, false},
	{"allocated at an address", "ibv_exp_reg_mr", AV_CHECK_MR_ALLOCATE, EINVAL, allocate_at, 0, ANY, ANY, false},
	{"shared, no whole pages", "ibv_exp_reg_mr", AV_CHECK_MR_SHARE_LENGTH, EINVAL, allocate_share, 5000, 5000, 4096, false},
	{"private without RDMA", "ibv_exp_reg_mr", AV_CHECK_MR_NO_RDMA,   EINVAL, allocate_no_rdma, 0, ANY, ANY, false},
	{"allocated on demand", "ibv_exp_reg_mr", AV_CHECK_MR_ALLOCATED,  EINVAL, allocate_on_demand, 0, ANY, ANY, false},
	{"allocated within a page", "ibv_exp_reg_mr", AV_CHECK_MR_ALLOCATED_AT, EINVAL, allocate_askew, 0x10000008, 0x10000008, 4096, false},
	{"shared region that is none", "ibv_exp_reg_shared_mr", AV_CHECK_MR_HANDLE, EINVAL, shared_handle, 0x7fffffff, 0x7fffffff, ANY, false},
	{"change's flags",      "ibv_exp_rereg_mr", AV_CHECK_FLAGS,       EINVAL, rereg, 1 << 20, 1 << 20, ANY, false},
	{"change without address", "ibv_exp_rereg_mr", AV_CHECK_REREG_INPUT, EINVAL, rereg, IBV_EXP_REREG_MR_CHANGE_TRANSLATION, IBV_EXP_REREG_MR_CHANGE_TRANSLATION, ANY, false},
	{"prefetch's flags",    "ibv_exp_prefetch_mr", AV_CHECK_FLAGS,    EINVAL, prefetch_flags, 8, 8, ANY, false},
	{"prefetch, not on demand", "ibv_exp_prefetch_mr", AV_CHECK_ADVISE_KEY, EINVAL, prefetch_not_on_demand, 0, ANY, ANY, false},
	{"copy in no direction", "ibv_exp_memcpy_dm", AV_CHECK_DM_DIRECTION, EINVAL, dm_direction, 7, 7, ANY, false},
	{"device memory's mask", "ibv_exp_alloc_dm", AV_CHECK_COMP_MASK,  EINVAL, dm_mask, 1 << 9, 1 << 9, ANY, false},
	{"bound by no queue pair", "ibv_exp_bind_mw", AV_CHECK_BIND_QP,   EINVAL, bind_nowhere, 0, ANY, ANY, false},
	{"key's flags",         "ibv_exp_create_mr", AV_CHECK_FLAGS,      EINVAL, key_flags, 8, 8, ANY, false},
	{"signatures",          "ibv_exp_create_mr", AV_CHECK_FLAGS,      EOPNOTSUPP, key_flags, IBV_EXP_MR_SIGNATURE_EN, IBV_EXP_MR_SIGNATURE_EN, ANY, false},
	{"key without room",    "ibv_exp_create_mr", AV_CHECK_UMR_SIZE,   EINVAL, key_room, 0, 0, ANY, false},
	{"key of another kind", "ibv_exp_query_mkey", AV_CHECK_UMR_KEY,   EINVAL, query_plain, 0, ANY, ANY, false},
	{"UMR by a plain queue pair", "ibv_exp_post_send", AV_CHECK_UMR_QP, EINVAL, umr_qp_plain, 0, ANY, ANY, true},
	{"UMR with unknown flags", "ibv_exp_post_send", AV_CHECK_FLAGS,   EINVAL, umr_flags, 1ull << 40, ANY, ANY, false},
	{"UMR of a plain key",  "ibv_exp_post_send", AV_CHECK_UMR_KEY,    EINVAL, umr_plain_key, 0, ANY, ANY, false},
	{"UMR of no kind",      "ibv_exp_post_send", AV_CHECK_UMR_TYPE,   EINVAL, umr_type, 9, 9, 0, false},
	{"UMR of the other kind", "ibv_exp_post_send", AV_CHECK_UMR_FIXED, EINVAL, umr_fixed, 0, ANY, ANY, false},
	{"UMR with too long a list", "ibv_exp_post_send", AV_CHECK_UMR_COUNT, EINVAL, umr_count, ROOM + 1, ROOM + 1, ROOM, false},
	{"UMR with too much inline", "ibv_exp_post_send", AV_CHECK_UMR_INLINE, EINVAL, umr_inline, INLINE + 1, INLINE + 1, INLINE, false},
	{"UMR without its list", "ibv_exp_post_send", AV_CHECK_UMR_CONTAINER, EINVAL, umr_container, 0, 1, ANY, false},
	{"UMR's rights",        "ibv_exp_post_send", AV_CHECK_MR_FLAGS,   EINVAL, umr_access, 1ull << 50, 1ull << 50, ANY, false},
	{"UMR's rights that need another", "ibv_exp_post_send", AV_CHECK_MR_NEEDS_LOCAL, EINVAL, umr_access, IBV_EXP_ACCESS_REMOTE_WRITE, ANY, ANY, false},
	{"UMR, no elements",    "ibv_exp_post_send", AV_CHECK_UMR_LIST,   EINVAL, umr_list, 0, ANY, ANY, false},
	{"UMR, element of nothing", "ibv_exp_post_send", AV_CHECK_UMR_ELEMENT, EINVAL, umr_element, 0, ANY, ANY, false},
	{"UMR, empty elements", "ibv_exp_post_send", AV_CHECK_UMR_ENTITY, EINVAL, umr_entity, 0, 0, ANY, false},
	{"UMR, element that wraps", "ibv_exp_post_send", AV_CHECK_UMR_RANGE, EINVAL, umr_range, 0, ANY, ANY, false},
	{"opcode",              "ibv_exp_post_send", AV_CHECK_POST_OPCODE, EINVAL, exp_opcode, 77, 77, ANY, false},
	{"request's flags",     "ibv_exp_post_send", AV_CHECK_FLAGS,      EINVAL, exp_flags, 1ull << 40, 1ull << 40, ANY, false},
	{"operand too large",   "ibv_exp_post_send", AV_CHECK_POST_OPERAND, EINVAL, exp_operand, 20, 1 << 20, ANY, false},
	{"operand far too large", "ibv_exp_post_send", AV_CHECK_POST_OPERAND, EINVAL, exp_operand, 40, 1ull << 40, ANY, false},
	{"bind of no window",   "ibv_exp_post_send", AV_CHECK_BIND_WINDOW, EINVAL, exp_no_window, 0, ANY, ANY, false},
	{"NOP in RESET",        "ibv_exp_post_send", AV_CHECK_POST_SEND_STATE, EINVAL, nop_in_reset, 0, IBV_QPS_RESET, ANY, false},
};
/* clang-format on */

void verbs_of_experiments(void)
{
	struct ibv_exp_qp_init_attr init =
		plain_exp(IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS);

	init.exp_create_flags = IBV_EXP_QP_CREATE_UMR;
	init.max_inl_send_klms = INLINE;
	umr_qp = ibv_exp_create_qp(n->ctx, &init);
	key = create_key(IBV_EXP_MR_INDIRECT_KLMS, ROOM);
	fixed_key = create_key(IBV_EXP_MR_FIXED_BUFFER_SIZE, ROOM);
	if (!umr_qp || !key || !fixed_key)
		DIE("UMR: errno %d", errno);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		verb_run(&rows[i]);
	EXPECT(!ibv_dereg_mr(key) && !ibv_dereg_mr(fixed_key) && !ibv_destroy_qp(umr_qp), "UMR");
}
