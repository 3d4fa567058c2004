/* SPDX-License-Identifier: MIT */
/* The opcodes of connected services: what each does, and what each asks of a request. */
#ifndef AV_TRANSPORT_DIRECT_OPCODE_H
#define AV_TRANSPORT_DIRECT_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/direct_work.h"

struct av_direct_opcode {
	av_operation *operation;
	bool local;    /* works on the requester's own keys, and no responder hears of it */
	bool receives; /* consumes a receive request */
	bool uc;       /* unreliable connections have it, too: IBTA volume 1, 9.4 */
	bool word;     /* brings or wants 8 bytes, no more and no less */
};

/* The row of an opcode (enum ibv_wr_opcode, AV_WR_...), whatever a ring holds. Return: it, NULL:
 * none */
const struct av_direct_opcode *av_direct_opcode(uint32_t opcode);

/* What the requester refuses without asking anybody. Return: AV_FAULT_NONE, or LOC_QP_OP, LOC_LEN
 */
AV_MUST_USE enum av_fault av_direct_check(const struct av_work *w);

/* Would that request consume a receive request? */
static inline bool av_direct_receives(const struct av_work *w)
{
	return w->opcode && w->opcode->receives;
}

#endif
