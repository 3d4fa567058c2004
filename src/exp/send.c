/* SPDX-License-Identifier: MIT */
/*
 * ibv_exp_post_send(): work requests are translated a batch at a time and posted as plain ones. Opcodes
 * without a plain counterpart are refused.
 */
#include <string.h>

#include "exp/exp.h"

#define BATCH 16
#define COMMON \
	offsetof(struct ibv_exp_send_wr, task) /* so far the two structures are one, but for the flags */
#define FLAGS (IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED | IBV_EXP_SEND_INLINE)

static_assert(offsetof(struct ibv_exp_send_wr, wr) == offsetof(struct ibv_send_wr, wr) &&
		      offsetof(struct ibv_exp_send_wr, qp_type) == offsetof(struct ibv_send_wr, qp_type) &&
		      offsetof(struct ibv_exp_send_wr, ex) == offsetof(struct ibv_send_wr, imm_data) &&
		      COMMON == offsetof(struct ibv_send_wr, bind_mw),
	      "send requests");

/*
 * What to bind lies in its own place, or, of a program that filled the request through a cast, where the
 * plain structure has it.
 */
static int translate_bind(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr)
{
	const struct ibv_exp_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw) {
		memcpy(&to->bind_mw, (const char *)wr + COMMON, sizeof(to->bind_mw));
		return to->bind_mw.mw ? 0 : EINVAL;
	}
	to->bind_mw.mw = wr->bind_mw.mw;
	to->bind_mw.rkey = wr->bind_mw.rkey;
	to->bind_mw.bind_info.mr = info->mr;
	to->bind_mw.bind_info.addr = info->addr;
	to->bind_mw.bind_info.length = info->length;
	return av_exp_access(info->exp_mw_access_flags, &to->bind_mw.bind_info.mw_access_flags);
}

static int translate(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr, const struct av_qp *qp)
{
	if ((unsigned int)wr->exp_opcode > IBV_EXP_WR_SEND_WITH_INV ||
	    (wr->exp_send_flags & ~(uint64_t)FLAGS))
		return EINVAL;
	if (!(wr->exp_send_flags & IBV_EXP_SEND_INLINE) && wr->num_sge > 0 &&
	    (uint32_t)wr->num_sge > qp->end.qp->sq_max_sge)
		return ENOMEM;
	memset(to, 0, sizeof(*to));
	memcpy(to, wr, COMMON);
	to->next = NULL;
	to->opcode = (enum ibv_wr_opcode)wr->exp_opcode; /* the same values */
	to->send_flags = (unsigned int)wr->exp_send_flags;
	return wr->exp_opcode == IBV_EXP_WR_BIND_MW ? translate_bind(to, wr) : 0;
}

static int refuse(struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr, int err)
{
	*bad_wr = wr;
	return av_fail_errno(err);
}

/* The same place of the other list. */
static struct ibv_exp_send_wr *counterpart(struct ibv_exp_send_wr *exp, const struct ibv_send_wr *plain,
					   const struct ibv_send_wr *wanted)
{
	for (; plain != wanted; plain = plain->next)
		exp = exp->next;
	return exp;
}

AV_EXPORT int ibv_exp_post_send(struct ibv_qp *ibv, struct ibv_exp_send_wr *wr,
				struct ibv_exp_send_wr **bad_wr)
{
	struct ibv_send_wr batch[BATCH], *bad;
	const struct av_qp *qp;

	if (!av_ours(ibv->context))
		return -ENOSYS;
	qp = av_qp_find(ibv);
	if (av_unlikely(!qp || !qp->send_cq || av_context_of(ibv->context)->forked))
		return refuse(wr, bad_wr, EINVAL);
	while (wr) {
		struct ibv_exp_send_wr *first = wr;
		int n = 0, err = 0, posted;

		for (; wr && n < BATCH; wr = wr->next, n++) {
			err = translate(&batch[n], wr, qp);
			if (err)
				break;
			if (n)
				batch[n - 1].next = &batch[n];
		}
		posted = n ? av_post_send(ibv, batch, &bad) : 0;
		if (posted) {
			*bad_wr = counterpart(first, batch, bad);
			return posted;
		}
		if (err)
			return refuse(wr, bad_wr, err);
	}
	return 0;
}
