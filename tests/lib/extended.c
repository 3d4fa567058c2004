/* SPDX-License-Identifier: MIT */
#include "lib/extended.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/side.h"

#define PATIENCE 20000u

int extended_create_qp(struct node *n, int qp, enum ibv_qp_type type, uint32_t max_operand)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = spec_default().cap,
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = n->pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY,
		.max_atomic_arg = max_operand,
	};

	errno = 0;
	n->qp[qp] = ibv_exp_create_qp(n->ctx, &init);
	return n->qp[qp] ? 0 : errno;
}

/* An operand as a field of a request. */
static uint64_t field(const struct av_operand *o, uint32_t bytes)
{
	return bytes <= 8 ? o->word[0] : (uintptr_t)o->word;
}

void extended_request(struct ibv_exp_send_wr *wr, const struct av_atomic *a, bool masked,
		      uint64_t addr, uint32_t rkey, struct ibv_sge *sge, int num_sge)
{
	struct ibv_exp_cmp_swap *swap = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	struct ibv_exp_fetch_add *add = &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
	bool adds = a->op == AV_ATOMIC_ADD;

	memset(wr, 0xee, sizeof(*wr)); /* fields that the operation does not use must not matter */
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = num_sge;
	wr->exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr->ext_op.masked_atomics.log_arg_sz = (uint32_t)__builtin_ctz(a->bytes);
	if (!masked) {
		wr->exp_opcode =
			adds ? IBV_EXP_WR_ATOMIC_FETCH_AND_ADD : IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = field(adds ? &a->value : &a->compare, a->bytes);
		wr->wr.atomic.swap = field(&a->value, a->bytes);
		return;
	}
	wr->exp_opcode = adds ? IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD
			      : IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	wr->ext_op.masked_atomics.remote_addr = addr;
	wr->ext_op.masked_atomics.rkey = rkey;
	if (adds) {
		add->add_val = field(&a->value, a->bytes);
		add->field_boundary = field(&a->mask, a->bytes);
		return;
	}
	swap->compare_mask = field(&a->compare_mask, a->bytes);
	swap->compare_val = field(&a->compare, a->bytes);
	swap->swap_val = field(&a->value, a->bytes);
	swap->swap_mask = field(&a->mask, a->bytes);
}

struct ibv_exp_wc extended_do(struct node *n, int qp, struct ibv_exp_send_wr *wr)
{
	uint64_t end = now_ms() + PATIENCE;
	struct ibv_exp_send_wr *bad;
	struct ibv_exp_wc wc;
	int ret;

	wr->wr_id = 0x1122334455667788;
	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	ret = ibv_exp_post_send(n->qp[qp], wr, &bad);
	if (ret)
		DIE("%s: ibv_exp_post_send: %d", row_name(), ret);
	do
		ret = ibv_exp_poll_cq(n->cq[0], 1, &wc, sizeof(wc));
	while (ret == 0 && now_ms() < end);
	if (ret != 1 || wc.wr_id != wr->wr_id || wc.qp_num != n->qp[qp]->qp_num)
		DIE("%s: ibv_exp_poll_cq: %d", row_name(), ret);
	return wc;
}

struct anyverbs_tunneled_atomic tunneled_command(const struct av_atomic *a, uint64_t offset)
{
	static const uint8_t operation[] = {
		[AV_ATOMIC_ADD] = ANYVERBS_TUNNELED_ADD,
		[AV_ATOMIC_XOR] = ANYVERBS_TUNNELED_XOR,
		[AV_ATOMIC_OR] = ANYVERBS_TUNNELED_OR,
		[AV_ATOMIC_AND] = ANYVERBS_TUNNELED_AND,
		[AV_ATOMIC_MAX_UNSIGNED] = ANYVERBS_TUNNELED_MAX_UNSIGNED,
		[AV_ATOMIC_MAX_SIGNED] = ANYVERBS_TUNNELED_MAX_SIGNED,
		[AV_ATOMIC_MIN_UNSIGNED] = ANYVERBS_TUNNELED_MIN_UNSIGNED,
		[AV_ATOMIC_MIN_SIGNED] = ANYVERBS_TUNNELED_MIN_SIGNED,
		[AV_ATOMIC_SWAP] = ANYVERBS_TUNNELED_SWAP,
		[AV_ATOMIC_CMP_SWAP] = ANYVERBS_TUNNELED_CMP_SWAP,
		[AV_ATOMIC_CMP_SWAP_NE] = ANYVERBS_TUNNELED_CMP_SWAP_NE,
	};
	const uint64_t used = a->bytes == 4 ? UINT32_MAX : UINT64_MAX;
	struct anyverbs_tunneled_atomic c = {
		.magic = ANYVERBS_TUNNELED_MAGIC,
		.version = ANYVERBS_TUNNELED_VERSION,
		.operation = operation[a->op],
		.bytes = (uint8_t)a->bytes,
		.order = a->how ? ANYVERBS_TUNNELED_BIG_ENDIAN : ANYVERBS_TUNNELED_LITTLE_ENDIAN,
		.offset = offset,
		.value = a->value.word[0] & used,
	};

	if (a->op == AV_ATOMIC_CMP_SWAP || a->op == AV_ATOMIC_CMP_SWAP_NE)
		c.compare = a->compare.word[0] & used;
	if (a->op == AV_ATOMIC_CMP_SWAP || a->op == AV_ATOMIC_ADD)
		c.mask = a->mask.word[0] & used;
	if (a->op == AV_ATOMIC_CMP_SWAP)
		c.compare_mask = a->compare_mask.word[0] & used;
	return c;
}
