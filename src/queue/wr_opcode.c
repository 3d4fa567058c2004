/* SPDX-License-Identifier: MIT */
#include "queue/wr_opcode.h"

#include "base/newer_verbs.h"

const struct av_wr_opcode av_wr_opcode[AV_WR_OPCODES] = {
	[IBV_WR_RDMA_WRITE] = {.known = true, .uc = true, .source = true},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {.known = true,
					.receives = true,
					.uc = true,
					.source = true},
	[IBV_WR_SEND] = {.known = true, .receives = true, .uc = true, .ud = true, .source = true},
	[IBV_WR_SEND_WITH_IMM] =
		{.known = true, .receives = true, .uc = true, .ud = true, .source = true},
	[IBV_WR_SEND_WITH_INV] = {.known = true, .receives = true, .source = true},
	[IBV_WR_RDMA_READ] = {.known = true, .answered = true},
	[AV_WR_FLUSH] = {.known = true, .answered = true},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {.known = true, .word = true, .answered = true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {.known = true, .word = true, .answered = true},
	[AV_WR_ATOMIC_WRITE] = {.known = true, .word = true, .answered = true, .source = true},
	[AV_WR_SIZED_CMP_AND_SWP] = {.known = true, .answered = true},
	[AV_WR_SIZED_FETCH_AND_ADD] = {.known = true, .answered = true},
	[AV_WR_MASKED_CMP_AND_SWP] = {.known = true, .answered = true},
	[AV_WR_MASKED_FETCH_AND_ADD] = {.known = true, .answered = true},
	[IBV_WR_LOCAL_INV] = {.known = true, .local = true},
	[IBV_WR_BIND_MW] = {.known = true, .local = true},
	[AV_WR_NOP] = {.known = true, .local = true},
	[AV_WR_UMR_FILL] = {.known = true, .local = true},
	[AV_WR_UMR_INVALIDATE] = {.known = true, .local = true},
};
