/* SPDX-License-Identifier: MIT */
/*
 * ibv_exp_post_send(): posts batches of requests as plain ones, or as queue/qp.h's own; UMR and NOP
 * one by one. Opcodes without a counterpart are refused.
 */
#include <string.h>

#include "exp/exp.h"
#include "verbs/ibv_qp_ex.h"

#define BATCH 16
/* Up to here the two structures are identical, except for the flags. */
#define COMMON offsetof(struct ibv_exp_send_wr, task)
#define FLAGS \
	(IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED | IBV_EXP_SEND_INLINE)

static_assert(offsetof(struct ibv_exp_send_wr, wr) == offsetof(struct ibv_send_wr, wr) &&
		      offsetof(struct ibv_exp_send_wr, qp_type) ==
			      offsetof(struct ibv_send_wr, qp_type) &&
		      offsetof(struct ibv_exp_send_wr, ex) ==
			      offsetof(struct ibv_send_wr, imm_data) &&
		      COMMON == offsetof(struct ibv_send_wr, bind_mw),
	      "send requests");

static_assert((int)AV_WR_MASKED_CMP_AND_SWP == (int)IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP &&
		      (int)AV_WR_MASKED_FETCH_AND_ADD ==
			      (int)IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD &&
		      (int)AV_WC_MASKED_CMP_AND_SWP == (int)IBV_EXP_WC_MASKED_COMP_SWAP &&
		      (int)AV_WC_MASKED_FETCH_AND_ADD == (int)IBV_EXP_WC_MASKED_FETCH_ADD,
	      "masked atomics");

/* --- extended atomics ------------------------------------------------------------ */

/* Operands of up to 8 bytes are values; for longer ones the field is a pointer, not NULL. */
static bool load_atomic_operand(struct av_operand *to, uint64_t field, uint32_t bytes)
{
	if (bytes <= sizeof(field))
		to->word[0] = field;
	else if (field)
		memcpy(to, (const void *)(uintptr_t)field, bytes);
	else
		return false;
	return true;
}

static bool load_masked_cmp_swap(struct av_atomic *to, const struct ibv_exp_send_wr *wr)
{
	const struct ibv_exp_cmp_swap *from =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;

	to->op = AV_ATOMIC_CMP_SWAP;
	return load_atomic_operand(&to->value, from->swap_val, to->bytes) &&
	       load_atomic_operand(&to->compare, from->compare_val, to->bytes) &&
	       load_atomic_operand(&to->mask, from->swap_mask, to->bytes) &&
	       load_atomic_operand(&to->compare_mask, from->compare_mask, to->bytes);
}

static bool load_masked_fetch_add(struct av_atomic *to, const struct ibv_exp_send_wr *wr)
{
	const struct ibv_exp_fetch_add *from =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;

	to->op = AV_ATOMIC_ADD;
	return load_atomic_operand(&to->value, from->add_val, to->bytes) &&
	       load_atomic_operand(&to->mask, from->field_boundary, to->bytes);
}

static bool load_cmp_swap(struct av_atomic *to, const struct ibv_exp_send_wr *wr)
{
	to->op = AV_ATOMIC_CMP_SWAP;
	memset(&to->mask, 0xff, sizeof(to->mask));
	memset(&to->compare_mask, 0xff, sizeof(to->compare_mask));
	return load_atomic_operand(&to->value, wr->wr.atomic.swap, to->bytes) &&
	       load_atomic_operand(&to->compare, wr->wr.atomic.compare_add, to->bytes);
}

static bool load_fetch_add(struct av_atomic *to, const struct ibv_exp_send_wr *wr)
{
	to->op = AV_ATOMIC_ADD;
	return load_atomic_operand(&to->value, wr->wr.atomic.compare_add, to->bytes);
}

static const struct atomic_row {
	bool (*load)(struct av_atomic *to, const struct ibv_exp_send_wr *wr);
	uint32_t opcode; /* opcode to post */
	bool masked;	 /* the target is in the extension, not in wr.atomic */
} atomic_row[] = {
	[IBV_EXP_WR_ATOMIC_CMP_AND_SWP] = {load_cmp_swap, AV_WR_SIZED_CMP_AND_SWP, false},
	[IBV_EXP_WR_ATOMIC_FETCH_AND_ADD] = {load_fetch_add, AV_WR_SIZED_FETCH_AND_ADD, false},
	[IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP] = {load_masked_cmp_swap,
						      AV_WR_MASKED_CMP_AND_SWP, true},
	[IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD] = {load_masked_fetch_add,
							AV_WR_MASKED_FETCH_AND_ADD, true},
};

/* The row of an atomic operation with sized operands, otherwise NULL. */
static const struct atomic_row *extended_atomic(const struct ibv_exp_send_wr *wr)
{
	if (av_likely(!(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE)) ||
	    (unsigned int)wr->exp_opcode >= AV_ARRAY_SIZE(atomic_row))
		return NULL;
	return atomic_row[wr->exp_opcode].load ? &atomic_row[wr->exp_opcode] : NULL;
}

static int translate_atomic(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr,
			    const struct atomic_row *row, struct av_atomic *operands)
{
	uint32_t log = wr->ext_op.masked_atomics.log_arg_sz;

	if (log > 31)
		return av_refuse(EINVAL, AV_CHECK_POST_OPERAND, 1ull << (log & 63), 0);
	memset(operands, 0, sizeof(*operands));
	operands->bytes = 1u << log;
	if (!av_atomic_size_valid(operands->bytes) || !row->load(operands, wr))
		return av_refuse(EINVAL, AV_CHECK_POST_OPERAND, operands->bytes, 0);
	if (row->masked) {
		to->wr.atomic.remote_addr = wr->ext_op.masked_atomics.remote_addr;
		to->wr.atomic.rkey = wr->ext_op.masked_atomics.rkey;
	}
	to->opcode = (enum ibv_wr_opcode)row->opcode;
	return 0;
}

/* --- all requests ---------------------------------------------------------------- */

/* Programs that filled the request through a cast have it where the plain structure does. */
static int translate_bind(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr)
{
	const struct ibv_exp_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw) {
		memcpy(&to->bind_mw, (const char *)wr + COMMON, sizeof(to->bind_mw));
		return to->bind_mw.mw ? 0 : av_refuse(EINVAL, AV_CHECK_BIND_WINDOW, 0, 0);
	}
	to->bind_mw.mw = wr->bind_mw.mw;
	to->bind_mw.rkey = wr->bind_mw.rkey;
	to->bind_mw.bind_info.mr = info->mr;
	to->bind_mw.bind_info.addr = info->addr;
	to->bind_mw.bind_info.length = info->length;
	return av_exp_access(info->exp_mw_access_flags, &to->bind_mw.bind_info.mw_access_flags);
}

/* @operands: room for those of an extended atomic. */
static int convert_exp_send_wr(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr,
			       const struct av_qp *qp, struct av_atomic *operands)
{
	const struct atomic_row *atomic = extended_atomic(wr);
	uint64_t flags = FLAGS | (atomic ? IBV_EXP_SEND_EXT_ATOMIC_INLINE : 0);

	if (!atomic && (unsigned int)wr->exp_opcode > IBV_EXP_WR_SEND_WITH_INV)
		return av_refuse(EINVAL, AV_CHECK_POST_OPCODE, (uint64_t)(int)wr->exp_opcode, 0);
	if (wr->exp_send_flags & ~flags)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, wr->exp_send_flags, flags);
	if (!(wr->exp_send_flags & IBV_EXP_SEND_INLINE) && wr->num_sge > 0 &&
	    (uint32_t)wr->num_sge > qp->end.qp->sq_max_sge)
		return av_refuse(ENOMEM, AV_CHECK_POST_SEND_SGE, (uint64_t)wr->num_sge,
				 qp->end.qp->sq_max_sge);
	memset(to, 0, sizeof(*to));
	memcpy(to, wr, COMMON);
	to->next = NULL;
	to->opcode = (enum ibv_wr_opcode)wr->exp_opcode; /* the same values */
	to->send_flags = (unsigned int)(wr->exp_send_flags & FLAGS);
	if (av_unlikely(atomic))
		return translate_atomic(to, wr, atomic, operands);
	return wr->exp_opcode == IBV_EXP_WR_BIND_MW ? translate_bind(to, wr) : 0;
}

static int refuse_exp_send(const struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
			   struct ibv_exp_send_wr **bad_wr, int err)
{
	*bad_wr = wr;
	av_refuse_object(err, AV_OBJECT_QP, qp->qp_num);
	return av_fail_errno(AV_VERB_EXP_POST_SEND, err);
}

/* The request in the other list at the position of @wanted. */
static struct ibv_exp_send_wr *counterpart(struct ibv_exp_send_wr *exp,
					   const struct ibv_send_wr *plain,
					   const struct ibv_send_wr *wanted)
{
	for (; plain != wanted; plain = plain->next)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the lists are as long */
		exp = exp->next;
	return exp;
}

AV_EXPORT int ibv_exp_post_send(struct ibv_qp *ibv, struct ibv_exp_send_wr *wr,
				struct ibv_exp_send_wr **bad_wr)
{
	struct ibv_send_wr batch[BATCH], *bad;
	struct av_atomic operands[BATCH];
	struct av_qp *qp;

	if (!av_ours(ibv->context))
		return -ENOSYS;
	qp = av_qp_find(ibv);
	if (av_unlikely(!qp || av_context_of(ibv->context)->forked))
		return refuse_exp_send(ibv, wr, bad_wr,
				       av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0));
	while (wr) {
		struct ibv_exp_send_wr *first = wr;
		int n = 0, err = 0, posted;

		for (; wr && n < BATCH && !av_exp_is_special(wr); wr = wr->next, n++) {
			err = convert_exp_send_wr(&batch[n], wr, qp, &operands[n]);
			if (err)
				break;
			if (n)
				batch[n - 1].next = &batch[n];
		}
		posted = n ? av_post_translated(ibv, batch, &bad, operands) : 0;
		if (posted) {
			*bad_wr = counterpart(first, batch, bad);
			return posted;
		}
		if (!err && wr && av_exp_is_special(wr)) {
			err = av_exp_post_special(qp, wr);
			wr = err ? wr : wr->next;
		}
		if (err)
			return refuse_exp_send(ibv, wr, bad_wr, err);
	}
	return 0;
}
