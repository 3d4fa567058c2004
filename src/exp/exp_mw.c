/* SPDX-License-Identifier: MIT */
/* Binds type 1 windows. Type 2 windows are bound by work requests (exp/exp_send.c). */
#include "exp/exp.h"

#define FLAGS (IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED)

AV_EXPORT int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind)
{
	const struct ibv_exp_mw_bind_info *info = &mw_bind->bind_info;
	struct ibv_mw_bind plain = {
		.wr_id = mw_bind->wr_id,
		.send_flags = (unsigned int)mw_bind->exp_send_flags,
		.bind_info = {.mr = info->mr, .addr = info->addr, .length = info->length},
	};
	int err;

	if (!av_ours(mw_bind->mw->context))
		return av_exp_absent(AV_VERB_EXP_BIND_MW);
	AV_EXP_KNOWN_OR_EINVAL(mw_bind->comp_mask, IBV_EXP_BIND_MW_RESERVED);
	if ((mw_bind->exp_send_flags & ~(uint64_t)FLAGS) ||
	    mw_bind->qp->context != mw_bind->mw->context ||
	    av_exp_access(info->exp_mw_access_flags, &plain.bind_info.mw_access_flags))
		return av_fail_errno(AV_VERB_EXP_BIND_MW, EINVAL);
	err = ibv_bind_mw(mw_bind->qp, mw_bind->mw, &plain);
	return err ? av_fail_errno(AV_VERB_EXP_BIND_MW, err) : 0;
}
