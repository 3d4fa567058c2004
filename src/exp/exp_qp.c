/* SPDX-License-Identifier: MIT */
/* Queue pairs: ibv_exp_create_qp(), ibv_exp_modify_qp(). */
#include <string.h>

#include "base/uncancelled.h"
#include "exp/exp.h"

#include "memory/klm_list.h"
#include "verbs/between.h"

#define CREATE_FLAGS (IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY | IBV_EXP_QP_CREATE_UMR)

/* Bits above DEST_QPN have no meaning, or another one, among the plain bits. */
#define PLAIN_MASK ((uint64_t)IBV_QP_DEST_QPN * 2 - 1)

static bool has(const struct ibv_exp_qp_init_attr *attr, uint32_t bit)
{
	return attr->comp_mask & bit;
}

/* Operands of all sizes up to the largest work, on services that have atomics. */
static uint32_t max_operand(const struct ibv_exp_qp_init_attr *attr)
{
	bool atomics = attr->qp_type == IBV_QPT_RC || attr->qp_type == IBV_QPT_XRC_SEND;

	return atomics && has(attr, IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG) ? attr->max_atomic_arg : 0;
}

/* Permission for big-endian replies asks for no feature: ours are never big-endian. */
static bool unsupported(const struct ibv_exp_qp_init_attr *attr)
{
	return (has(attr, IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS) &&
		(attr->exp_create_flags & ~(uint32_t)CREATE_FLAGS)) ||
	       (has(attr, IBV_EXP_QP_INIT_ATTR_QPG) && attr->qpg.qpg_type != IBV_EXP_QPG_NONE) ||
	       (has(attr, IBV_EXP_QP_INIT_ATTR_RX_HASH) && attr->rx_hash_conf) ||
	       (has(attr, IBV_EXP_QP_INIT_ATTR_PEER_DIRECT) && attr->peer_direct_attrs) ||
	       (has(attr, IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER) && attr->max_tso_header) ||
	       (has(attr, IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN) && attr->associated_qpn) ||
	       attr->qp_type == IBV_EXP_QPT_DC_INI;
}

static int check_create(struct ibv_context *context, const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t flags = has(attr, IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS) ? attr->exp_create_flags : 0;
	bool umr = flags & IBV_EXP_QP_CREATE_UMR;

	if (attr->qp_type != IBV_QPT_XRC_RECV &&
	    (!has(attr, IBV_EXP_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context))
		return av_refuse(EINVAL, AV_CHECK_PD_UNKNOWN, 0, 0);
	if (attr->qp_type == IBV_QPT_XRC_RECV && (!has(attr, IBV_EXP_QP_INIT_ATTR_XRCD) ||
						  !attr->xrcd || attr->xrcd->context != context))
		return av_refuse(EINVAL, AV_CHECK_QP_XRCD, 0, 0);
	if (flags & ~(uint32_t)IBV_EXP_QP_CREATE_MASK)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, flags, CREATE_FLAGS);
	if (umr != has(attr, IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS) ||
	    (umr && attr->max_inl_send_klms > AV_MAX_INLINE_KLMS))
		return av_refuse(
			EINVAL, AV_CHECK_QP_UMR,
			has(attr, IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS) ? attr->max_inl_send_klms : 0,
			AV_MAX_INLINE_KLMS);
	if (has(attr, IBV_EXP_QP_INIT_ATTR_RES_DOMAIN) &&
	    !av_exp_domain_valid(context, attr->res_domain))
		return av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0);
	if (max_operand(attr) > AV_ATOMIC_MAX_BYTES)
		return av_refuse(EINVAL, AV_CHECK_QP_OPERANDS, attr->max_atomic_arg,
				 AV_ATOMIC_MAX_BYTES);
	if (has(attr, IBV_EXP_QP_INIT_ATTR_PORT) && attr->port_num != 1)
		return av_refuse(EINVAL, AV_CHECK_ATTR_PORT, attr->port_num, 1);
	return unsupported(attr) ? av_refuse(ENOTSUP, AV_CHECK_QP_FEATURE, attr->comp_mask, flags)
				 : 0;
}

/* Element lists in UMR requests use the space of inline data. */
static bool wants_umr(const struct ibv_exp_qp_init_attr *attr)
{
	return has(attr, IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS) &&
	       (attr->qp_type == IBV_QPT_RC || attr->qp_type == IBV_QPT_XRC_SEND);
}

static void make_room(struct ibv_qp_cap *cap, const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t bytes = attr->max_inl_send_klms * (uint32_t)sizeof(struct av_klm_entry);

	if (wants_umr(attr) && cap->max_inline_data < bytes)
		cap->max_inline_data = bytes;
}

static void grant_umr(struct av_qp *qp, struct ibv_exp_qp_init_attr *attr)
{
	if (!has(attr, IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS))
		return;
	qp->umr = wants_umr(attr);
	qp->inline_klms = qp->umr ? attr->max_inl_send_klms : 0;
	attr->max_inl_send_klms = qp->inline_klms;
}

static void report(struct ibv_exp_qp_init_attr *attr, const struct ibv_qp_init_attr *plain,
		   const struct av_qp_extra *extra)
{
	attr->cap = plain->cap;
	if (has(attr, IBV_EXP_QP_INIT_ATTR_INL_RECV))
		attr->max_inl_recv = extra->inline_recv;
	if (!extra->inline_recv)
		attr->comp_mask &= ~(uint32_t)IBV_EXP_QP_INIT_ATTR_INL_RECV;
}

AV_EXPORT struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					   struct ibv_exp_qp_init_attr *attr)
{
	AV_UNCANCELLED;
	struct ibv_qp_init_attr plain = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	struct av_qp_extra extra = {
		.inline_recv = has(attr, IBV_EXP_QP_INIT_ATTR_INL_RECV) ? attr->max_inl_recv : 0,
		.max_operand = max_operand(attr),
	};
	bool plain_only = attr->comp_mask == IBV_EXP_QP_INIT_ATTR_PD;
	struct ibv_qp *qp;
	int err;

	if (!plain_only && !av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_QP, ENOSYS);
	AV_EXP_KNOWN_OR_NULL(EXP_CREATE_QP, attr->comp_mask, IBV_EXP_QP_INIT_ATTR_RESERVED1);
	err = plain_only ? 0 : check_create(context, attr);
	if (err)
		return av_fail_null(AV_VERB_EXP_CREATE_QP, err);
	if (plain_only) {
		qp = ibv_create_qp(attr->pd, &plain);
	} else {
		make_room(&plain.cap, attr);
		qp = av_qp_create(av_context_of(context), attr->pd, attr->xrcd, &plain, &extra);
		if (qp)
			grant_umr(av_container_of(qp, struct av_qp, ibv), attr);
	}
	if (qp)
		report(attr, &plain, &extra);
	return qp;
}

/* The two structures are identical up to alt_timeout. */
AV_EXPORT int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
				uint64_t exp_attr_mask)
{
	AV_UNCANCELLED;
	const size_t common =
		offsetof(struct ibv_exp_qp_attr, alt_timeout) + sizeof(attr->alt_timeout);
	struct ibv_qp_attr plain = {.qp_state = IBV_QPS_RESET};

	static_assert(offsetof(struct ibv_exp_qp_attr, alt_timeout) ==
			      offsetof(struct ibv_qp_attr, alt_timeout),
		      "attributes of queue pairs");
	AV_EXP_OURS(av_fail_errno, EXP_MODIFY_QP, qp);
	AV_EXP_KNOWN_OR_EINVAL(EXP_MODIFY_QP, attr->comp_mask, IBV_EXP_QP_ATTR_RESERVED);
	if (exp_attr_mask & ~PLAIN_MASK)
		return av_fail_errno(AV_VERB_EXP_MODIFY_QP, av_refuse(EINVAL, AV_CHECK_ATTR_MASK,
								      exp_attr_mask, PLAIN_MASK));
	memcpy(&plain, attr, common);
	return ibv_modify_qp(qp, &plain, (int)exp_attr_mask);
}
