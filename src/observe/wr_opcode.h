/* SPDX-License-Identifier: MIT */
/*
 * What is true of the opcodes of send requests, whoever asks: a row each. Only the operation is
 * elsewhere, in transport/execute.c. Source: IBTA volume 1, 9.4; ibv_post_send(3), ibv_wr_post(3).
 */
#pragma once

#include <infiniband/verbs.h>

#include "base/newer_verbs.h"
#include "observe/counters.h"
#include "wire/packet.h"

/*
 * Opcodes beside those of enum ibv_wr_opcode, and of completions: values of the experimental verbs,
 * but for sized ones. Those are plain ones with operands of another size, and complete as those.
 */
enum {
	AV_WR_SIZED_CMP_AND_SWP = 97,
	AV_WR_SIZED_FETCH_AND_ADD = 98,
	AV_WR_MASKED_CMP_AND_SWP = 99,
	AV_WR_MASKED_FETCH_AND_ADD = 100,
	AV_WR_NOP = 101,
	AV_WR_UMR_FILL = 102,
	AV_WR_UMR_INVALIDATE = 103,
	AV_WR_OPCODES,
	AV_WC_MASKED_CMP_AND_SWP = 9,
	AV_WC_MASKED_FETCH_AND_ADD = 10,
	AV_WC_UMR = 0x100,
};

/* Which fields of struct ibv_send_wr a request has. */
enum av_wr_form {
	AV_FORM_NONE, /* ibv_post_send() does not take it */
	AV_FORM_MESSAGE,
	AV_FORM_RDMA,
	AV_FORM_ATOMIC,
	AV_FORM_LOCAL,
	AV_FORM_BIND,
	AV_FORM_OPERANDS, /* its operands lie in the slot, not in the request */
};

/* The operation of a request's packets, what the last one carries, and the answer's operation. */
struct av_packet_kind {
	enum av_operation operation;
	enum av_tail tail;
	enum av_operation answer;
};

struct AV_ALIGNED(AV_CACHE_LINE) av_wr_opcode {
	const char *name;	   /* in sentences; NULL: no opcode */
	const char *rule_words[2]; /* in fault rules: as in IBV_WR_..., and a short one; or NULL */
	enum av_wr_form form;
	uint32_t types;		      /* a bit for each enum ibv_qp_type that has it */
	enum av_traffic_kind traffic; /* what it counts as; not of local ones, as @packet */
	struct av_packet_kind packet;
	uint32_t rights;     /* needed of the responder and its key; 0: it names no memory there */
	uint16_t builder;    /* IBV_QP_EX_WITH_...; 0: there is none */
	uint16_t completion; /* enum ibv_wc_opcode, or one of the above */
	bool may_inline;     /* its data may be in the request */
	bool local;	     /* works on the requester's own keys, without a responder */
	bool receives;	     /* takes a receive request of the responder */
	bool answered; /* takes a resource of the responder; done when its own answer is there */
	bool source;   /* its buffers are read, and travel to the responder */
	bool is_word;  /* its operand is 8 bytes, no more and no less */
};

/* The last row, of no opcode, is all zeros. */
extern const struct av_wr_opcode av_wr_opcodes[AV_WR_OPCODES + 1]
	__attribute__((visibility("hidden")));

/* The row of any value; of one that is no opcode, all is zero. */
static inline const struct av_wr_opcode *av_wr_opcode(uint32_t opcode)
{
	return &av_wr_opcodes[opcode < AV_WR_OPCODES ? opcode : AV_WR_OPCODES];
}

/* Does a queue pair of that type have it? */
static inline bool av_wr_opcode_is_of(const struct av_wr_opcode *o, uint32_t qp_type)
{
	return o->types >> (qp_type & 31) & 1;
}

/* The packets of such a request. NULL: it sends none. */
static inline const struct av_packet_kind *av_packet_kind(uint32_t opcode)
{
	const struct av_wr_opcode *o = av_wr_opcode(opcode);

	return o->name && !o->local ? &o->packet : NULL;
}

/*
 * The opcode of the request that a request packet is of, as far as it shows: only the last packet
 * of a message says what it carries beside payload. Return: AV_WR_OPCODES: of none, or an answer
 */
uint32_t av_packet_wr_opcode(const struct av_opcode *info);
