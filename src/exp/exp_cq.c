/* SPDX-License-Identifier: MIT */
/* Completion queues, and polling into the larger work completions. */
#include <string.h>

#include "base/uncancelled.h"
#include "exp/exp.h"

#include "device/switches.h"
#include "queue/notify.h"
#include "transport/poll.h"
#include "verbs/between.h"
#include "verbs/ops.h"

#define BATCH 16

/* Compressed entries never show. Without its switch, AS notify means ordinary events. */
#define FLAGS (IBV_EXP_CQ_TIMESTAMP | IBV_EXP_CQ_COMPRESSED_CQE | IBV_EXP_CQ_AS_NOTIFY)

static int check_create(struct ibv_context *context, const struct ibv_exp_cq_init_attr *attr)
{
	if (attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS) {
		if (attr->flags & ~(uint32_t)IBV_EXP_CQ_CREATE_FLAGS_MASK)
			return av_refuse(EINVAL, AV_CHECK_CQ_FLAGS, attr->flags, FLAGS);
		if (attr->flags & ~(uint32_t)FLAGS)
			return av_refuse(ENOTSUP, AV_CHECK_CQ_FLAGS, attr->flags, FLAGS);
	}
	if ((attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN) &&
	    !av_exp_domain_valid(context, attr->res_domain))
		return av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0);
	return attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT
		       ? av_refuse(ENOTSUP, AV_CHECK_COMP_MASK, attr->comp_mask,
				   IBV_EXP_CQ_INIT_ATTR_FLAGS | IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN)
		       : 0;
}

static void apply_flags(const struct av_context *ctx, struct av_cq *cq, uint32_t flags)
{
	if (flags & IBV_EXP_CQ_TIMESTAMP)
		atomic_store(&cq->shared->stamped, 1);
	if ((flags & IBV_EXP_CQ_AS_NOTIFY) && av_switch_on(ctx->seg, AV_SWITCH_AS_NOTIFY))
		av_cq_notify_make(cq->shared);
}

AV_EXPORT struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					   struct ibv_comp_channel *channel, int comp_vector,
					   struct ibv_exp_cq_init_attr *attr)
{
	AV_UNCANCELLED;
	struct ibv_cq *cq;
	int err;

	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_CQ, ENOSYS);
	AV_EXP_KNOWN_OR_NULL(EXP_CREATE_CQ, attr->comp_mask, IBV_EXP_CQ_INIT_ATTR_RESERVED1);
	err = check_create(context, attr);
	if (err)
		return av_fail_null(AV_VERB_EXP_CREATE_CQ, err);
	cq = av_cq_create(av_context_of(context), cqe, cq_context, channel, comp_vector);
	if (cq && (attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS))
		apply_flags(av_context_of(context), av_container_of(cq, struct av_cq, ibv),
			    attr->flags);
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
	struct ibv_modify_cq_attr plain = {
		.attr_mask = cq_attr_mask & IBV_EXP_CQ_MODERATION ? IBV_CQ_ATTR_MODERATE : 0,
		.moderate = {cq_attr->moderation.cq_count, cq_attr->moderation.cq_period},
	};
	int err;

	if (!av_ours(cq->context))
		return ENOSYS;
	AV_EXP_KNOWN_OR_EINVAL(EXP_MODIFY_CQ, cq_attr->comp_mask, IBV_EXP_CQ_ATTR_RESERVED);
	err = check_modify(cq_attr, cq_attr_mask);
	if (err)
		return av_fail_errno(AV_VERB_EXP_MODIFY_CQ, err);
	err = av_modify_cq(cq, &plain);
	if (err == 0 && (cq_attr_mask & IBV_EXP_CQ_CAP_FLAGS))
		atomic_store(&av_container_of(cq, struct av_cq, ibv)->shared->drops,
			     (cq_attr->cq_cap_flags & IBV_EXP_CQ_IGNORE_OVERRUN) != 0);
	return err;
}

static void translate(struct ibv_exp_wc *to, const struct ibv_wc *wc, bool stamped,
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

/* @wc_size: shorter in older programs; nothing is written beyond an element. */
AV_EXPORT int ibv_exp_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_exp_wc *wc,
			      uint32_t wc_size)
{
	size_t bytes = wc_size < sizeof(*wc) ? wc_size : sizeof(*wc);
	struct ibv_wc batch[BATCH];
	uint64_t stamp_ns[BATCH];
	struct ibv_exp_wc one;
	int done = 0, taken, want;
	struct av_cq *cq;
	bool stamped;

	if (!av_ours(ibv->context))
		return -ENOSYS;
	cq = av_cq_find(ibv);
	if (av_unlikely(!cq || av_context_of(ibv->context)->forked))
		return -av_fail_errno(AV_VERB_EXP_POLL_CQ,
				      av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0));
	stamped = atomic_load_explicit(&cq->shared->stamped, memory_order_relaxed);
	do {
		want = num_entries - done < BATCH ? num_entries - done : BATCH;
		taken = av_poll(av_context_of(ibv->context)->seg, cq->shared, want, batch,
				stamp_ns);
		for (int i = 0; i < taken; i++, done++) {
			translate(&one, &batch[i], stamped, stamp_ns[i]);
			memcpy((char *)wc + (size_t)done * wc_size, &one, bytes);
		}
	} while (taken == want && done < num_entries);
	return done ? done : taken;
}
