/* SPDX-License-Identifier: MIT */
/* Shared receive queues: ibv_exp_create_srq(). */
#include "base/uncancelled.h"
#include "exp/exp.h"

#include "verbs/misuse.h"
#include "verbs/ops.h"

/* What is not of the type is not looked at. Return: 0, EINVAL or ENOTSUP */
static int check_create(const struct ibv_exp_create_srq_attr *attr)
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
	struct ibv_srq_init_attr_ex plain = {
		.srq_context = attr->base.srq_context,
		.attr = attr->base.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = attr->pd,
	};
	struct ibv_srq *srq;
	int err;

	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_SRQ, ENOSYS);
	AV_EXP_KNOWN_OR_NULL(EXP_CREATE_SRQ, attr->comp_mask, IBV_EXP_CREATE_SRQ_RESERVED);
	err = check_create(attr);
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
