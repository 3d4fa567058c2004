/* SPDX-License-Identifier: MIT */
#include "exp/exp.h"
#include "transport/transport.h"
#include "verbs/misuse.h"

/* --- resource domains: thread domains under another name; nothing needs them ----- */

static_assert(sizeof(struct ibv_exp_res_domain) == sizeof(struct ibv_td), "one object, two names");

static bool is_res_domain(const struct ibv_context *context, struct ibv_exp_res_domain *domain)
{
	return domain && domain->context == context && av_td_find((struct ibv_td *)domain);
}

AV_EXPORT struct ibv_exp_res_domain *
ibv_exp_create_res_domain(struct ibv_context *context, struct ibv_exp_res_domain_init_attr *attr)
{
	struct ibv_td_init_attr plain = {.comp_mask = 0};
	int err = 0;

	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN, ENOSYS);
	AV_EXP_KNOWN(NULL, EXP_CREATE_RES_DOMAIN, attr->comp_mask, IBV_EXP_RES_DOMAIN_RESERVED);
	if ((attr->comp_mask & IBV_EXP_RES_DOMAIN_THREAD_MODEL) &&
	    attr->thread_model > IBV_EXP_THREAD_SINGLE)
		err = av_refuse(EINVAL, AV_CHECK_RES_MODEL, attr->thread_model, 0);
	else if ((attr->comp_mask & IBV_EXP_RES_DOMAIN_MSG_MODEL) &&
		 attr->msg_model > IBV_EXP_MSG_FORCE_LOW_LATENCY)
		err = av_refuse(EINVAL, AV_CHECK_RES_MODEL, attr->msg_model, 0);
	if (err)
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN, err);
	return (struct ibv_exp_res_domain *)ibv_alloc_td(context, &plain);
}

AV_EXPORT int ibv_exp_destroy_res_domain(struct ibv_context *context,
					 struct ibv_exp_res_domain *res_dom,
					 struct ibv_exp_destroy_res_domain_attr *attr)
{
	if (!av_ours(context))
		return av_fail_errno(AV_VERB_EXP_DESTROY_RES_DOMAIN, ENOSYS);
	if (attr)
		AV_EXP_KNOWN(EINVAL, EXP_DESTROY_RES_DOMAIN, attr->comp_mask,
			     IBV_EXP_DESTROY_RES_DOMAIN_RESERVED);
	return is_res_domain(context, res_dom)
		       ? ibv_dealloc_td((struct ibv_td *)res_dom)
		       : av_fail_errno(AV_VERB_EXP_DESTROY_RES_DOMAIN,
				       av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0));
}

/* --- completion queues ----------------------------------------------------------- */

#define BATCH 16

/* A program never sees compressed entries. Without its switch, AS notify means ordinary events. */
#define CQ_FLAGS (IBV_EXP_CQ_TIMESTAMP | IBV_EXP_CQ_COMPRESSED_CQE | IBV_EXP_CQ_AS_NOTIFY)

static int check_create_cq(struct ibv_context *context, const struct ibv_exp_cq_init_attr *attr,
			   uint32_t flags)
{
	if (flags & ~(uint32_t)IBV_EXP_CQ_CREATE_FLAGS_MASK)
		return av_refuse(EINVAL, AV_CHECK_CQ_FLAGS, flags, CQ_FLAGS);
	if (flags & ~(uint32_t)CQ_FLAGS)
		return av_refuse(ENOTSUP, AV_CHECK_CQ_FLAGS, flags, CQ_FLAGS);
	if ((attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN) &&
	    !is_res_domain(context, attr->res_domain))
		return av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0);
	return attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT
		       ? av_refuse(ENOTSUP, AV_CHECK_COMP_MASK, attr->comp_mask,
				   IBV_EXP_CQ_INIT_ATTR_FLAGS | IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN)
		       : 0;
}

AV_EXPORT struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					   struct ibv_comp_channel *channel, int comp_vector,
					   struct ibv_exp_cq_init_attr *attr)
{
	AV_UNCANCELLED;
	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_CQ, ENOSYS);
	AV_EXP_KNOWN(NULL, EXP_CREATE_CQ, attr->comp_mask, IBV_EXP_CQ_INIT_ATTR_RESERVED1);
	struct av_context *ctx = av_context_of(context);
	uint32_t flags = attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;
	int err = check_create_cq(context, attr, flags);
	struct ibv_cq *cq = err ? av_fail_null(AV_VERB_EXP_CREATE_CQ, err)
				: av_cq_create(ctx, cqe, cq_context, channel, comp_vector);

	if (cq && (flags & IBV_EXP_CQ_TIMESTAMP))
		atomic_store(&av_cq_find(cq)->shared->stamped, 1);
	if (cq && (flags & IBV_EXP_CQ_AS_NOTIFY) && av_switch_on(ctx->seg, AV_SWITCH_AS_NOTIFY))
		av_cq_notify_make(av_cq_find(cq)->shared);
	return cq;
}

static int check_modify(const struct ibv_exp_cq_attr *attr, int mask)
{
	const int known = IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS;

	if (mask & ~known)
		return av_refuse(EINVAL, AV_CHECK_CQ_MODIFY, (uint32_t)mask, (uint32_t)known);
	if (!(mask & IBV_EXP_CQ_CAP_FLAGS))
		return 0;
	return attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_CAP_MASK
		       ? av_refuse(EINVAL, AV_CHECK_FLAGS, attr->cq_cap_flags, IBV_EXP_CQ_CAP_MASK)
		       : 0;
}

AV_EXPORT int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *cq_attr,
				int cq_attr_mask)
{
	AV_UNCANCELLED;
	if (!av_ours(cq->context))
		return ENOSYS;
	AV_EXP_KNOWN(EINVAL, EXP_MODIFY_CQ, cq_attr->comp_mask, IBV_EXP_CQ_ATTR_RESERVED);
	struct ibv_modify_cq_attr plain = {
		.attr_mask = cq_attr_mask & IBV_EXP_CQ_MODERATION ? IBV_CQ_ATTR_MODERATE : 0,
		.moderate = {cq_attr->moderation.cq_count, cq_attr->moderation.cq_period},
	};
	int err = check_modify(cq_attr, cq_attr_mask);

	if (err)
		return av_fail_errno(AV_VERB_EXP_MODIFY_CQ, err);
	err = ibv_modify_cq(cq, &plain);
	if (err == 0 && (cq_attr_mask & IBV_EXP_CQ_CAP_FLAGS))
		atomic_store(&av_container_of(cq, struct av_cq, ibv)->shared->drops,
			     (cq_attr->cq_cap_flags & IBV_EXP_CQ_IGNORE_OVERRUN) != 0);
	return err;
}

static void convert_wc_to_exp(struct ibv_exp_wc *to, const struct ibv_wc *wc, bool stamped,
			      uint64_t stamp_ns)
{
	*to = (struct ibv_exp_wc){
		.wr_id = wc->wr_id,
		.status = wc->status,
		.exp_opcode = (enum ibv_exp_wc_opcode)wc->opcode, /* the same values */
		.vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len,
		.imm_data = wc->imm_data,
		.qp_num = wc->qp_num,
		.src_qp = wc->src_qp,
		.pkey_index = wc->pkey_index,
		.slid = wc->slid,
		.sl = wc->sl,
		.dlid_path_bits = wc->dlid_path_bits,
		.exp_wc_flags =
			wc->wc_flags & (IBV_EXP_WC_GRH | IBV_EXP_WC_WITH_IMM | IBV_EXP_WC_WITH_INV),
	};
	if (wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV))
		to->exp_wc_flags |= IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID;
	if (!stamped)
		return;
	to->timestamp = stamp_ns;
	to->exp_wc_flags |= IBV_EXP_WC_WITH_TIMESTAMP;
}

/* @wc_size: bytes of an element, fewer in older programs. Writes nothing behind an element. */
AV_EXPORT int ibv_exp_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_exp_wc *wc,
			      uint32_t wc_size)
{
	if (!av_ours(ibv->context))
		return -ENOSYS;
	struct av_cq *cq = av_cq_find(ibv);
	size_t bytes = wc_size < sizeof(*wc) ? wc_size : sizeof(*wc);
	struct ibv_wc batch[BATCH];
	uint64_t stamp_ns[BATCH];
	struct ibv_exp_wc one;
	int done = 0, taken, want;
	bool stamped;

	if (av_unlikely(!cq || av_is_unusual(av_context_of(ibv->context)))) {
		int err = cq ? av_post_injected(av_context_of(ibv->context), AV_VERB_POLL_CQ, 0)
			     : av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0);

		if (err)
			return -av_fail_errno(AV_VERB_EXP_POLL_CQ, err);
	}
	stamped = atomic_load_explicit(&cq->shared->stamped, memory_order_relaxed);
	do {
		want = num_entries - done < BATCH ? num_entries - done : BATCH;
		taken = av_poll(av_context_of(ibv->context)->seg, cq->shared, want, batch,
				stamp_ns);
		for (int i = 0; i < taken; i++, done++) {
			convert_wc_to_exp(&one, &batch[i], stamped, stamp_ns[i]);
			memcpy((char *)wc + (size_t)done * wc_size, &one, bytes);
		}
	} while (taken == want && done < num_entries);
	return done ? done : taken;
}

/* --- shared receive queues ------------------------------------------------------- */

/* Ignores what the type does not have. Return: 0, EINVAL or ENOTSUP */
static int check_srq(const struct ibv_exp_create_srq_attr *attr)
{
	const uint32_t xrc = IBV_EXP_CREATE_SRQ_CQ | IBV_EXP_CREATE_SRQ_XRCD;

	switch (attr->srq_type) {
	case IBV_EXP_SRQT_BASIC:
		return 0;
	case IBV_EXP_SRQT_XRC:
		return (attr->comp_mask & xrc) == xrc
			       ? 0
			       : av_refuse(EINVAL, AV_CHECK_COMP_MASK_LACKS, attr->comp_mask, xrc);
	case IBV_EXP_SRQT_TAG_MATCHING:
		return av_refuse(ENOTSUP, AV_CHECK_SRQ_TYPE, (uint64_t)(int)attr->srq_type, 0);
	}
	return av_refuse(EINVAL, AV_CHECK_SRQ_TYPE, (uint64_t)(int)attr->srq_type, 0);
}

AV_EXPORT struct ibv_srq *ibv_exp_create_srq(struct ibv_context *context,
					     struct ibv_exp_create_srq_attr *attr)
{
	AV_UNCANCELLED;
	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_SRQ, ENOSYS);
	AV_EXP_KNOWN(NULL, EXP_CREATE_SRQ, attr->comp_mask, IBV_EXP_CREATE_SRQ_RESERVED);
	struct ibv_srq_init_attr_ex plain = {
		.srq_context = attr->base.srq_context,
		.attr = attr->base.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = attr->pd,
	};
	int err = check_srq(attr);
	struct ibv_srq *srq;

	if (err)
		return av_fail_null(AV_VERB_EXP_CREATE_SRQ, err);
	if (attr->srq_type == IBV_EXP_SRQT_XRC) {
		plain.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		plain.srq_type = IBV_SRQT_XRC;
		plain.xrcd = attr->xrcd;
		plain.cq = attr->cq;
	}
	srq = AV_MADE_HERE(struct av_srq, av_create_srq_ex(context, &plain));
	if (srq)
		attr->base.attr.max_wr = plain.attr.max_wr;
	return srq;
}

/* --- queue pairs ----------------------------------------------------------------- */

#define CREATE_FLAGS (IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY | IBV_EXP_QP_CREATE_UMR)

/* Plain bits above DEST_QPN have no meaning, or another one. */
#define PLAIN_MASK ((uint64_t)IBV_QP_DEST_QPN * 2 - 1)

/* Copies the attributes. One whose bit is not set may be garbage, and is 0 in the copy. */
static struct ibv_exp_qp_init_attr known_attr(const struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_exp_qp_init_attr known = {.comp_mask = 0};

	memcpy(&known, attr, offsetof(struct ibv_exp_qp_init_attr, pd));
#define KNOWN(bit, member)                                        \
	do {                                                      \
		if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_##bit) \
			known.member = attr->member;              \
	} while (0)
	KNOWN(PD, pd);
	KNOWN(XRCD, xrcd);
	KNOWN(CREATE_FLAGS, exp_create_flags);
	KNOWN(INL_RECV, max_inl_recv);
	KNOWN(QPG, qpg);
	KNOWN(ATOMICS_ARG, max_atomic_arg);
	KNOWN(MAX_INL_KLMS, max_inl_send_klms);
	KNOWN(RES_DOMAIN, res_domain);
	KNOWN(RX_HASH, rx_hash_conf);
	KNOWN(PORT, port_num);
	KNOWN(PEER_DIRECT, peer_direct_attrs);
	KNOWN(MAX_TSO_HEADER, max_tso_header);
	KNOWN(ASSOCIATED_QPN, associated_qpn);
#undef KNOWN
	/* Only these services have atomics. Operands of all sizes up to the largest work. */
	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_XRC_SEND)
		known.max_atomic_arg = 0;
	return known;
}

/* Permission for big-endian replies asks for no feature: our replies are never big-endian. */
static bool unsupported(const struct ibv_exp_qp_init_attr *known)
{
	return (known->exp_create_flags & ~(uint32_t)CREATE_FLAGS) ||
	       known->qpg.qpg_type != IBV_EXP_QPG_NONE || known->rx_hash_conf ||
	       known->peer_direct_attrs || known->max_tso_header || known->associated_qpn ||
	       known->qp_type == IBV_EXP_QPT_DC_INI;
}

static int check_exp_qp_create(struct ibv_context *context,
			       const struct ibv_exp_qp_init_attr *known)
{
	const bool xrc = known->qp_type == IBV_QPT_XRC_RECV;
	const bool umr = known->exp_create_flags & IBV_EXP_QP_CREATE_UMR,
		   klms = known->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;

	if (!xrc && (!known->pd || known->pd->context != context))
		return av_refuse(EINVAL, AV_CHECK_PD_UNKNOWN, 0, 0);
	if (xrc && (!known->xrcd || known->xrcd->context != context))
		return av_refuse(EINVAL, AV_CHECK_QP_XRCD, 0, 0);
	if (known->exp_create_flags & ~(uint32_t)IBV_EXP_QP_CREATE_MASK)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, known->exp_create_flags, CREATE_FLAGS);
	if (umr != klms || (umr && known->max_inl_send_klms > AV_MAX_INLINE_KLMS))
		return av_refuse(EINVAL, AV_CHECK_QP_UMR, known->max_inl_send_klms,
				 AV_MAX_INLINE_KLMS);
	if ((known->comp_mask & IBV_EXP_QP_INIT_ATTR_RES_DOMAIN) &&
	    !is_res_domain(context, known->res_domain))
		return av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0);
	if (known->max_atomic_arg > AV_ATOMIC_MAX_BYTES)
		return av_refuse(EINVAL, AV_CHECK_QP_OPERANDS, known->max_atomic_arg,
				 AV_ATOMIC_MAX_BYTES);
	if ((known->comp_mask & IBV_EXP_QP_INIT_ATTR_PORT) && known->port_num != 1)
		return av_refuse(EINVAL, AV_CHECK_ATTR_PORT, known->port_num, 1);
	return unsupported(known) ? av_refuse(ENOTSUP, AV_CHECK_QP_FEATURE, known->comp_mask,
					      known->exp_create_flags)
				  : 0;
}

static struct ibv_qp *create_exp_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr,
				    struct ibv_qp_init_attr *plain)
{
	const struct ibv_exp_qp_init_attr known = known_attr(attr);
	struct av_qp_extra extra = {.inline_recv = known.max_inl_recv,
				    .max_operand = known.max_atomic_arg};
	const bool klms = known.comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		   umr = klms && (known.qp_type == IBV_QPT_RC || known.qp_type == IBV_QPT_XRC_SEND);
	const uint32_t inline_klms = umr ? known.max_inl_send_klms : 0,
		       klm_bytes = inline_klms * (uint32_t)sizeof(struct av_klm_entry);
	int err = check_exp_qp_create(context, &known);
	struct ibv_qp *ibv;
	struct av_qp *qp;

	if (err)
		return av_fail_null(AV_VERB_EXP_CREATE_QP, err);
	/* The list in a UMR request is where inline data would be. */
	if (plain->cap.max_inline_data < klm_bytes)
		plain->cap.max_inline_data = klm_bytes;
	ibv = av_qp_create(av_context_of(context), known.pd, known.xrcd, plain, &extra);
	if (!ibv)
		return NULL;
	qp = av_container_of(ibv, struct av_qp, ibv);
	qp->umr = umr;
	qp->inline_klms = inline_klms;
	if (klms)
		attr->max_inl_send_klms = inline_klms;
	if (known.comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = extra.inline_recv;
	if (!extra.inline_recv)
		attr->comp_mask &= ~(uint32_t)IBV_EXP_QP_INIT_ATTR_INL_RECV;
	return ibv;
}

AV_EXPORT struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					   struct ibv_exp_qp_init_attr *attr)
{
	AV_UNCANCELLED;
	const bool plain_only = attr->comp_mask == IBV_EXP_QP_INIT_ATTR_PD;
	struct ibv_qp_init_attr plain;
	struct ibv_qp *qp;

	if (!plain_only && !av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_QP, ENOSYS);
	AV_EXP_KNOWN(NULL, EXP_CREATE_QP, attr->comp_mask, IBV_EXP_QP_INIT_ATTR_RESERVED1);
	static_assert(offsetof(struct ibv_exp_qp_init_attr, sq_sig_all) ==
			      offsetof(struct ibv_qp_init_attr, sq_sig_all),
		      "attributes of new queue pairs");
	memcpy(&plain, attr, offsetof(struct ibv_exp_qp_init_attr, comp_mask));
	qp = plain_only ? ibv_create_qp(attr->pd, &plain) : create_exp_qp(context, attr, &plain);
	if (qp)
		attr->cap = plain.cap;
	return qp;
}

/* The two structures are identical up to alt_timeout. */
AV_EXPORT int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
				uint64_t exp_attr_mask)
{
	AV_EXP_OURS(av_fail_errno, EXP_MODIFY_QP, qp);
	const size_t common =
		offsetof(struct ibv_exp_qp_attr, alt_timeout) + sizeof(attr->alt_timeout);
	struct ibv_qp_attr plain = {.qp_state = IBV_QPS_RESET};

	static_assert(offsetof(struct ibv_exp_qp_attr, alt_timeout) ==
			      offsetof(struct ibv_qp_attr, alt_timeout),
		      "attributes of queue pairs");
	AV_EXP_KNOWN(EINVAL, EXP_MODIFY_QP, attr->comp_mask, IBV_EXP_QP_ATTR_RESERVED);
	if (exp_attr_mask & ~PLAIN_MASK)
		return av_fail_errno(AV_VERB_EXP_MODIFY_QP, av_refuse(EINVAL, AV_CHECK_ATTR_MASK,
								      exp_attr_mask, PLAIN_MASK));
	memcpy(&plain, attr, common);
	return ibv_modify_qp(qp, &plain, (int)exp_attr_mask);
}
