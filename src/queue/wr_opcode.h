/* SPDX-License-Identifier: MIT */
/*
 * What is true of the opcodes of send requests, whoever executes them. Source: IBTA volume 1, 9.4.
 */
#ifndef AV_QUEUE_WR_OPCODE_H
#define AV_QUEUE_WR_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/qp.h"

struct av_wr_opcode {
	bool known;    /* false: no opcode */
	bool local;    /* works on the requester's own keys, without a responder */
	bool receives; /* takes a receive request of the responder */
	bool uc;       /* allowed on unreliable connections, */
	bool ud;       /* and as a datagram */
	bool word;     /* its operand is 8 bytes, no more and no less */
	bool answered; /* takes a resource of the responder; done when its own answer is there */
	bool source;   /* its buffers are read, and travel to the responder */
};

#define AV_WR_OPCODES (AV_WR_UMR_INVALIDATE + 1)
extern const struct av_wr_opcode av_wr_opcode[AV_WR_OPCODES] __attribute__((visibility("hidden")));

/* Its row; NULL: there is no such opcode. */
#define AV_WR_OPCODE(opcode) \
	((opcode) < AV_WR_OPCODES && av_wr_opcode[opcode].known ? &av_wr_opcode[opcode] : NULL)

/* Of any value. False for values that are no opcode. */
static inline bool av_opcode_is_local(uint32_t opcode)
{
	return opcode < AV_WR_OPCODES && av_wr_opcode[opcode].local;
}

static inline bool av_opcode_receives(uint32_t opcode)
{
	return opcode < AV_WR_OPCODES && av_wr_opcode[opcode].receives;
}

static inline bool av_opcode_is_answered(uint32_t opcode)
{
	return opcode < AV_WR_OPCODES && av_wr_opcode[opcode].answered;
}

#endif
