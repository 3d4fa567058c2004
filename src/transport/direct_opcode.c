/* SPDX-License-Identifier: MIT */
/* The table of opcodes. */
#include "transport/direct_opcode.h"

#include "base/newer_verbs.h"
#include "base/limits.h"
#include "transport/direct.h"
#include "transport/direct_atomic.h"
#include "transport/direct_flush.h"
#include "transport/direct_local.h"
#include "transport/direct_read.h"
#include "transport/direct_receive.h"
#include "transport/direct_write.h"

static const struct av_direct_opcode row[] = {
	[IBV_WR_RDMA_WRITE] = {.operation = av_direct_write, .uc = true},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {.operation = av_direct_write_imm,
					.uc = true,
					.receives = true},
	[IBV_WR_SEND] = {.operation = av_direct_send, .uc = true, .receives = true},
	[IBV_WR_SEND_WITH_IMM] = {.operation = av_direct_send, .uc = true, .receives = true},
	[IBV_WR_SEND_WITH_INV] = {.operation = av_direct_send, .receives = true},
	[IBV_WR_RDMA_READ] = {.operation = av_direct_read},
	[AV_WR_FLUSH] = {.operation = av_direct_flush},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {.operation = av_direct_cmp_swap, .word = true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {.operation = av_direct_fetch_add, .word = true},
	[IBV_WR_ATOMIC_WRITE] = {.operation = av_direct_atomic_write, .word = true},
	[AV_WR_SIZED_CMP_AND_SWP] = {.operation = av_direct_with_operands},
	[AV_WR_SIZED_FETCH_AND_ADD] = {.operation = av_direct_with_operands},
	[AV_WR_MASKED_CMP_AND_SWP] = {.operation = av_direct_with_operands},
	[AV_WR_MASKED_FETCH_AND_ADD] = {.operation = av_direct_with_operands},
	[IBV_WR_LOCAL_INV] = {.operation = av_direct_local_inv, .local = true},
	[IBV_WR_BIND_MW] = {.operation = av_direct_bind, .local = true},
	[AV_WR_NOP] = {.operation = av_direct_nop, .local = true},
	[AV_WR_UMR_FILL] = {.operation = av_direct_umr_fill, .local = true},
	[AV_WR_UMR_INVALIDATE] = {.operation = av_direct_umr_invalidate, .local = true},
};

const struct av_direct_opcode *av_direct_opcode(uint32_t opcode)
{
	return opcode < AV_ARRAY_SIZE(row) && row[opcode].operation ? &row[opcode] : NULL;
}

bool av_direct_is_local(uint32_t opcode)
{
	const struct av_direct_opcode *o = av_direct_opcode(opcode);

	return o && o->local;
}

enum av_fault av_direct_check(const struct av_work *w)
{
	const struct av_direct_opcode *o = w->opcode;

	if (o && o->local)
		return AV_FAULT_NONE;
	if (!o || w->head.count > AV_MAX_SGE)
		return AV_FAULT_LOC_QP_OP;
	if (w->req->qp->type == IBV_QPT_UC && !o->uc)
		return AV_FAULT_LOC_QP_OP;
	if (w->head.bytes > AV_MAX_MSG_BYTES || (o->word && w->head.bytes != sizeof(uint64_t)))
		return AV_FAULT_LOC_LEN;
	return AV_FAULT_NONE;
}
