/* SPDX-License-Identifier: MIT */

#include "verbs/next.h"

/*
 * Inline verbs and other libraries rely on these layouts of <infiniband/verbs.h>. Structures grow
 * at their ends only: offsets hold for newer headers, too. Sizes are those of rdma-core 39 to 44.
 */

#define AT(type, member, offset) \
	_Static_assert(offsetof(type, member) == (offset), #type "." #member)

/* struct verbs_context grows at its front, so check the distance from its end. */
#define FROM_END(member, distance)                                                              \
	_Static_assert(sizeof(struct verbs_context) - offsetof(struct verbs_context, member) == \
			       (distance),                                                      \
		       #member)

AT(struct ibv_context, device, 0);
AT(struct ibv_context, ops, 8);
AT(struct ibv_context, cmd_fd, 264);
AT(struct ibv_context, async_fd, 268);
AT(struct ibv_context, num_comp_vectors, 272);
AT(struct ibv_context, mutex, 280);
AT(struct ibv_context, abi_compat, sizeof(struct ibv_context) - 8);
AT(struct ibv_context_ops, alloc_mw, 56);
AT(struct ibv_context_ops, bind_mw, 64);
AT(struct ibv_context_ops, dealloc_mw, 72);
AT(struct ibv_context_ops, poll_cq, 88);
AT(struct ibv_context_ops, req_notify_cq, 96);
AT(struct ibv_context_ops, post_srq_recv, 160);
AT(struct ibv_context_ops, post_send, 200);
AT(struct ibv_context_ops, post_recv, 208);
_Static_assert(sizeof(struct ibv_context_ops) == 256, "ibv_context_ops");
_Static_assert(offsetof(struct verbs_context, context) + sizeof(struct ibv_context) ==
		       sizeof(struct verbs_context),
	       "the public context is the last member");

#if defined(__x86_64__)
FROM_END(context, 328);
FROM_END(sz, 336);
FROM_END(close_xrcd, 352);
FROM_END(open_xrcd, 360);
FROM_END(create_srq_ex, 368);
FROM_END(get_srq_num, 376);
FROM_END(create_qp_ex, 384);
FROM_END(open_qp, 392);
FROM_END(query_device_ex, 432);
FROM_END(priv, 440);
FROM_END(create_cq_ex, 448);
FROM_END(alloc_dm, 584);
FROM_END(alloc_null_mr, 632);
FROM_END(advise_mr, 640);
FROM_END(query_port, 648);
_Static_assert(sizeof(struct ibv_device) == 664, "ibv_device");
_Static_assert(sizeof(struct ibv_qp) == 160, "ibv_qp");
_Static_assert(sizeof(struct ibv_cq) == 128, "ibv_cq");
#endif

AT(struct ibv_mr, lkey, 36);
AT(struct ibv_mr, rkey, 40);
AT(struct ibv_pd, handle, 8);
AT(struct ibv_comp_channel, fd, 8);
AT(struct ibv_comp_channel, refcnt, 12);
AT(struct ibv_wc, imm_data, 24);
AT(struct ibv_wc, qp_num, 28);
_Static_assert(sizeof(struct ibv_sge) == 16, "ibv_sge");
_Static_assert(sizeof(struct ibv_wc) == 48, "ibv_wc");
_Static_assert(sizeof(struct ibv_send_wr) == 128, "ibv_send_wr");
_Static_assert(sizeof(struct ibv_recv_wr) == 32, "ibv_recv_wr");
_Static_assert(sizeof(struct ibv_device_attr) == 232, "ibv_device_attr");
AT(struct ibv_port_attr, flags, 47);
AT(struct ibv_port_attr, port_cap_flags2, 48);

/* Our objects begin with the public struct; a verbs_context ends with the public context. */
AT(struct av_pd, ibv, 0);
AT(struct av_mr, ibv, 0);
AT(struct av_cq, ibv, 0);
AT(struct av_qp, ibv, 0);
AT(struct av_channel, ibv, 0);

/* Values that base/newer_verbs.h defines must be those of a header that has them. */
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#ifdef AV_HEADER_HAS_ATOMIC_WRITE
SAME(AV_WR_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE);
SAME(AV_WC_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE);
SAME(AV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE);
AT(struct ibv_qp_ex, wr_atomic_write, AV_WR_ATOMIC_WRITE_SLOT);
#endif
AT(struct av_qp, newer.wr_atomic_write, AV_WR_ATOMIC_WRITE_SLOT);
#ifdef AV_HEADER_HAS_FLUSH
SAME(AV_WR_FLUSH, IBV_WR_FLUSH);
SAME(AV_WC_FLUSH, IBV_WC_FLUSH);
SAME(AV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_FLUSH);
SAME(AV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_GLOBAL);
SAME(AV_ACCESS_FLUSH_PERSISTENT, IBV_ACCESS_FLUSH_PERSISTENT);
SAME(AV_FLUSH_GLOBAL, IBV_FLUSH_GLOBAL);
SAME(AV_FLUSH_PERSISTENT, IBV_FLUSH_PERSISTENT);
SAME(AV_FLUSH_RANGE, IBV_FLUSH_RANGE);
SAME(AV_FLUSH_MR, IBV_FLUSH_MR);
AT(struct ibv_qp_ex, wr_flush, AV_WR_FLUSH_SLOT);
#endif
AT(struct av_qp, newer.wr_flush, AV_WR_FLUSH_SLOT);
#ifdef AV_HEADER_HAS_REG_MR_EX
#define SAME_ATTR(member) \
	AT(struct ibv_mr_init_attr, member, offsetof(struct av_mr_init_attr, member))
SAME(AV_REG_MR_IOVA, IBV_REG_MR_MASK_IOVA);
SAME(AV_REG_MR_ADDR, IBV_REG_MR_MASK_ADDR);
SAME(AV_REG_MR_FD, IBV_REG_MR_MASK_FD);
SAME(AV_REG_MR_FD_OFFSET, IBV_REG_MR_MASK_FD_OFFSET);
SAME(AV_REG_MR_DMAH, IBV_REG_MR_MASK_DMAH);
SAME_ATTR(length);
SAME_ATTR(access);
SAME_ATTR(comp_mask);
SAME_ATTR(iova);
SAME_ATTR(addr);
SAME_ATTR(fd);
SAME_ATTR(fd_offset);
SAME_ATTR(dmah);
AT(struct ibv_dmah, context, offsetof(struct av_newer_object, context));
#endif
#ifdef AV_HEADER_HAS_BUF
SAME(AV_REG_MR_BUF, IBV_REG_MR_MASK_BUF);
SAME(AV_PARENT_DOMAIN_MAY_BE_UNPROTECTED, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
SAME_ATTR(buf);
#endif
#ifdef AV_HEADER_HAS_COMP_CNTR
AT(struct ibv_comp_cntr, context, offsetof(struct av_newer_object, context));
#endif

/* --- the dispatch tables --------------------------------------------------------- */

/* Verbs that this device lacks: their members of struct verbs_context, and parameters. */
#define LACKING(INT, PTR)                                                                          \
	INT(READ_COUNTERS, read_counters, struct ibv_counters *counters, uint64_t *values,         \
	    uint32_t count, uint32_t flags)                                                        \
	INT(ATTACH_COUNTERS_POINT_FLOW, attach_counters_point_flow, struct ibv_counters *counters, \
	    struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)                           \
	PTR(CREATE_COUNTERS, struct ibv_counters, create_counters, struct ibv_context *context,    \
	    struct ibv_counters_init_attr *attr)                                                   \
	INT(DESTROY_COUNTERS, destroy_counters, struct ibv_counters *counters)                     \
	INT(MODIFY_FLOW_ACTION_ESP, modify_flow_action_esp, struct ibv_flow_action *action,        \
	    struct ibv_flow_action_esp_attr *attr)                                                 \
	INT(DESTROY_FLOW_ACTION, destroy_flow_action, struct ibv_flow_action *action)              \
	PTR(CREATE_FLOW_ACTION_ESP, struct ibv_flow_action, create_flow_action_esp,                \
	    struct ibv_context *context, struct ibv_flow_action_esp_attr *attr)                    \
	INT(MODIFY_QP_RATE_LIMIT, modify_qp_rate_limit, struct ibv_qp *qp,                         \
	    struct ibv_qp_rate_limit_attr *attr)                                                   \
	INT(POST_SRQ_OPS, post_srq_ops, struct ibv_srq *srq, struct ibv_ops_wr *op,                \
	    struct ibv_ops_wr **bad_op)                                                            \
	INT(DESTROY_RWQ_IND_TABLE, destroy_rwq_ind_table, struct ibv_rwq_ind_table *table)         \
	PTR(CREATE_RWQ_IND_TABLE, struct ibv_rwq_ind_table, create_rwq_ind_table,                  \
	    struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr)                 \
	INT(DESTROY_WQ, destroy_wq, struct ibv_wq *wq)                                             \
	INT(MODIFY_WQ, modify_wq, struct ibv_wq *wq, struct ibv_wq_attr *attr)                     \
	PTR(CREATE_WQ, struct ibv_wq, create_wq, struct ibv_context *context,                      \
	    struct ibv_wq_init_attr *attr)                                                         \
	INT(DESTROY_FLOW, ibv_destroy_flow, struct ibv_flow *flow)                                 \
	PTR(CREATE_FLOW, struct ibv_flow, ibv_create_flow, struct ibv_qp *qp,                      \
	    struct ibv_flow_attr *attr)

#define NO_INT(verb, name, ...)                                   \
	static int no_##name(__VA_ARGS__)                         \
	{                                                         \
		return av_fail_errno(AV_VERB_##verb, EOPNOTSUPP); \
	}
#define NO_PTR(verb, type, name, ...)                            \
	static type *no_##name(__VA_ARGS__)                      \
	{                                                        \
		return av_fail_null(AV_VERB_##verb, EOPNOTSUPP); \
	}

LACKING(NO_INT, NO_PTR)
NO_PTR(NONE, void, compat, void)

static void no_placeholder(void)
{
}

static void fill_lacking(struct verbs_context *v)
{
#define SET_INT(verb, name, ...)       v->name = no_##name;
#define SET_PTR(verb, type, name, ...) v->name = no_##name;
	LACKING(SET_INT, SET_PTR)
	v->ABI_placeholder1 = v->ABI_placeholder2 = no_placeholder;
}

/* Sets all to fail. What stays so, only programs older than the extended tables call. */
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
	fill_lacking(verbs);
	fill_compat(&verbs->context.ops);
	av_query_fill_ops(verbs);
	av_pd_fill_ops(verbs);
	av_mr_fill_ops(verbs);
	av_dm_fill_ops(verbs);
	av_cq_fill_ops(verbs);
	av_srq_fill_ops(verbs);
	av_qp_fill_ops(verbs);
}

/* --- exported verbs that this device lacks; other devices get the system's ------- */

/* We make no DMA handle and no completion counter: each is another device's. */
static bool is_own_newer_object(const void *object)
{
	return av_ours(((const struct av_newer_object *)object)->context);
}

/* The verb @id: refused if @ours, or if the system's library is too old to have it. */
#define LACKED(fail, ours, id, name, version, ...) \
	((ours) ? fail(AV_VERB_##id, EOPNOTSUPP)   \
		: AV_NEXT_OR(fail(AV_VERB_##id, EOPNOTSUPP), name, version, __VA_ARGS__))

AV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return LACKED(av_fail_errno, av_ours(context), RESOLVE_ETH_L2_FROM_GID,
		      ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1", context, attr, eth_mac, vid);
}

/* librdmacm asks for enhanced connections each time. To lack them is normal. */
static int without_record(enum av_verb verb, int err)
{
	return err;
}

AV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (av_ours(qp->context))
		memset(ece, 0, sizeof(*ece));
	return LACKED(without_record, av_ours(qp->context), QUERY_ECE, ibv_query_ece,
		      "IBVERBS_1.10", qp, ece);
}

AV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return LACKED(without_record, av_ours(qp->context), SET_ECE, ibv_set_ece, "IBVERBS_1.10",
		      qp, ece);
}

AV_EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					  struct ibv_dmah_init_attr *attr)
{
	return LACKED(av_fail_null, av_ours(context), ALLOC_DMAH, ibv_alloc_dmah, "IBVERBS_1.15",
		      context, attr);
}

AV_EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	return LACKED(av_fail_errno, is_own_newer_object(dmah), DEALLOC_DMAH, ibv_dealloc_dmah,
		      "IBVERBS_1.15", dmah);
}

AV_EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *context,
					struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	return LACKED(av_fail_errno, av_ours(context), QUERY_COMP_CNTR_CAPS,
		      _ibv_query_comp_cntr_caps, "IBVERBS_1.18", context, caps, size);
}

AV_EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
						     struct ibv_comp_cntr_init_attr *attr)
{
	return LACKED(av_fail_null, av_ours(context), CREATE_COMP_CNTR, ibv_create_comp_cntr,
		      "IBVERBS_1.18", context, attr);
}

AV_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
				      struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return LACKED(av_fail_errno, av_ours(qp->context), QP_ATTACH_COMP_CNTR,
		      ibv_qp_attach_comp_cntr, "IBVERBS_1.18", qp, counter, attr);
}

/* Defines a verb on an existing counter. */
#define ON_COUNTER(id, name, type)                                                   \
	AV_EXPORT int name(struct ibv_comp_cntr *counter, type value)                \
	{                                                                            \
		return LACKED(av_fail_errno, is_own_newer_object(counter), id, name, \
			      "IBVERBS_1.18", counter, value);                       \
	}

ON_COUNTER(SET_COMP_CNTR, ibv_set_comp_cntr, uint64_t)
ON_COUNTER(SET_ERR_COMP_CNTR, ibv_set_err_comp_cntr, uint64_t)
ON_COUNTER(INC_COMP_CNTR, ibv_inc_comp_cntr, uint64_t)
ON_COUNTER(INC_ERR_COMP_CNTR, ibv_inc_err_comp_cntr, uint64_t)
ON_COUNTER(READ_COMP_CNTR, ibv_read_comp_cntr, uint64_t *)
ON_COUNTER(READ_ERR_COMP_CNTR, ibv_read_err_comp_cntr, uint64_t *)

AV_EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	return LACKED(av_fail_errno, is_own_newer_object(counter), DESTROY_COMP_CNTR,
		      ibv_destroy_comp_cntr, "IBVERBS_1.18", counter);
}

AV_EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	return LACKED(av_fail_fd, av_ours(dm->context), DM_EXPORT_DMABUF_FD,
		      ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", dm);
}
