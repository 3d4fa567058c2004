/* SPDX-License-Identifier: MIT */
#include "observe/wr_opcode.h"

/* clang-format off */
/* The first words of a row. The name of a public opcode is a word of fault rules, and its builder's. */
#define PUBLIC(prefix, opcode, text, brief, ...) \
	[prefix##_WR_##opcode] = {.name = (text), .rule_words = {#opcode, brief}, \
				  .builder = prefix##_QP_EX_WITH_##opcode, __VA_ARGS__}
#define OWN(opcode, text, word, brief, ...) \
	[AV_WR_##opcode] = {.name = (text), .rule_words = {word, brief}, __VA_ARGS__}

#define FORM(which) .form = AV_FORM_##which

/* Services. XRC has what RC has. */
#define RELIABLE (1u << IBV_QPT_RC | 1u << IBV_QPT_XRC_SEND)
#define RC	 .types = RELIABLE
#define RC_UC	 .types = (RELIABLE | 1u << IBV_QPT_UC)
#define ALL	 .types = (RELIABLE | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD)

#define TO_PEER(kind, what, carries, answered_by, right) \
	.traffic = AV_TRAFFIC_##kind, .rights = (right), \
	.packet = {AV_OP_##what, AV_TAIL_##carries, AV_OP_##answered_by}
#define LOCAL	 .local = true

#define IS(completes, in, takes, waits, sends, eight) \
	.completion = (completes), .may_inline = (in), .receives = (takes), .answered = (waits), \
	.source = (sends), .is_word = (eight)

const struct av_wr_opcode av_wr_opcodes[AV_WR_OPCODES + 1] = {
	/*          opcode                name                         short word       form           services counts as       packets       tail        answer         right                      completion             inline receives answered source word */
	PUBLIC(IBV, RDMA_WRITE,           "RDMA WRITE",                "WRITE",         FORM(RDMA),    RC_UC,   TO_PEER(WRITE,  WRITE,        NONE,       ACK,           IBV_ACCESS_REMOTE_WRITE),  IS(IBV_WC_RDMA_WRITE,  1, 0, 0, 1, 0)),
	PUBLIC(IBV, RDMA_WRITE_WITH_IMM,  "RDMA WRITE WITH IMMEDIATE", NULL,            FORM(RDMA),    RC_UC,   TO_PEER(WRITE,  WRITE,        IMM,        ACK,           IBV_ACCESS_REMOTE_WRITE),  IS(IBV_WC_RDMA_WRITE,  1, 1, 0, 1, 0)),
	PUBLIC(IBV, SEND,                 "SEND",                      NULL,            FORM(MESSAGE), ALL,     TO_PEER(SEND,   SEND,         NONE,       ACK,           0),                        IS(IBV_WC_SEND,        1, 1, 0, 1, 0)),
	PUBLIC(IBV, SEND_WITH_IMM,        "SEND WITH IMMEDIATE",       NULL,            FORM(MESSAGE), ALL,     TO_PEER(SEND,   SEND,         IMM,        ACK,           0),                        IS(IBV_WC_SEND,        1, 1, 0, 1, 0)),
	PUBLIC(IBV, SEND_WITH_INV,        "SEND WITH INVALIDATE",      NULL,            FORM(MESSAGE), RC,      TO_PEER(SEND,   SEND,         INVALIDATE, ACK,           0),                        IS(IBV_WC_SEND,        1, 1, 0, 1, 0)),
	PUBLIC(IBV, RDMA_READ,            "RDMA READ",                 "READ",          FORM(RDMA),    RC,      TO_PEER(READ,   READ,         NONE,       READ_RESPONSE, IBV_ACCESS_REMOTE_READ),   IS(IBV_WC_RDMA_READ,   0, 0, 1, 0, 0)),
	PUBLIC(IBV, ATOMIC_CMP_AND_SWP,   "COMPARE AND SWAP",          "CMP_AND_SWP",   FORM(ATOMIC),  RC,      TO_PEER(ATOMIC, CMP_SWAP,     NONE,       ATOMIC_ACK,    IBV_ACCESS_REMOTE_ATOMIC), IS(IBV_WC_COMP_SWAP,   0, 0, 1, 0, 1)),
	PUBLIC(IBV, ATOMIC_FETCH_AND_ADD, "FETCH AND ADD",             "FETCH_AND_ADD", FORM(ATOMIC),  RC,      TO_PEER(ATOMIC, FETCH_ADD,    NONE,       ATOMIC_ACK,    IBV_ACCESS_REMOTE_ATOMIC), IS(IBV_WC_FETCH_ADD,   0, 0, 1, 0, 1)),
	PUBLIC(IBV, LOCAL_INV,            "LOCAL INVALIDATE",          NULL,            FORM(LOCAL),   RC_UC,   LOCAL,                                                                              IS(IBV_WC_LOCAL_INV,   0, 0, 0, 0, 0)),
	PUBLIC(IBV, BIND_MW,              "BIND",                      NULL,            FORM(BIND),    RC_UC,   LOCAL,                                                                              IS(IBV_WC_BIND_MW,     0, 0, 0, 0, 0)),
	PUBLIC(AV,  FLUSH,                "FLUSH",                     NULL,            FORM(NONE),    RC,      TO_PEER(FLUSH,  FLUSH,        NONE,       READ_RESPONSE, AV_ACCESS_FLUSH_GLOBAL),   IS(AV_WC_FLUSH,        0, 0, 1, 0, 0)),
	PUBLIC(AV,  ATOMIC_WRITE,         "ATOMIC WRITE",              NULL,            FORM(RDMA),    RC,      TO_PEER(ATOMIC, ATOMIC_WRITE, NONE,       READ_RESPONSE, IBV_ACCESS_REMOTE_WRITE),  IS(AV_WC_ATOMIC_WRITE, 1, 0, 1, 1, 1)),

	/* opcode                 name                       word                               short word       form            services counts as       packets    tail  answer      right                      completion                     inline receives answered source word */
	OWN(SIZED_CMP_AND_SWP,    "COMPARE AND SWAP",        "ATOMIC_CMP_AND_SWP",              "CMP_AND_SWP",   FORM(OPERANDS), RC,      TO_PEER(ATOMIC, CMP_SWAP,  NONE, ATOMIC_ACK, IBV_ACCESS_REMOTE_ATOMIC), IS(IBV_WC_COMP_SWAP,           0, 0, 1, 0, 0)),
	OWN(SIZED_FETCH_AND_ADD,  "FETCH AND ADD",           "ATOMIC_FETCH_AND_ADD",            "FETCH_AND_ADD", FORM(OPERANDS), RC,      TO_PEER(ATOMIC, FETCH_ADD, NONE, ATOMIC_ACK, IBV_ACCESS_REMOTE_ATOMIC), IS(IBV_WC_FETCH_ADD,           0, 0, 1, 0, 0)),
	OWN(MASKED_CMP_AND_SWP,   "MASKED COMPARE AND SWAP", "EXT_MASKED_ATOMIC_CMP_AND_SWP",   NULL,            FORM(OPERANDS), RC,      TO_PEER(ATOMIC, CMP_SWAP,  NONE, ATOMIC_ACK, IBV_ACCESS_REMOTE_ATOMIC), IS(AV_WC_MASKED_CMP_AND_SWP,   0, 0, 1, 0, 0)),
	OWN(MASKED_FETCH_AND_ADD, "MASKED FETCH AND ADD",    "EXT_MASKED_ATOMIC_FETCH_AND_ADD", NULL,            FORM(OPERANDS), RC,      TO_PEER(ATOMIC, FETCH_ADD, NONE, ATOMIC_ACK, IBV_ACCESS_REMOTE_ATOMIC), IS(AV_WC_MASKED_FETCH_AND_ADD, 0, 0, 1, 0, 0)),
	OWN(NOP,                  "NOP",                     "NOP",                             NULL,            FORM(NONE),     RC,      LOCAL,                                                                  IS(IBV_WC_SEND,                0, 0, 0, 0, 0)),
	OWN(UMR_FILL,             "UMR",                     NULL,                              NULL,            FORM(NONE),     RC,      LOCAL,                                                                  IS(AV_WC_UMR,                  0, 0, 0, 0, 0)),
	OWN(UMR_INVALIDATE,       "UMR INVALIDATE",          NULL,                              NULL,            FORM(NONE),     RC,      LOCAL,                                                                  IS(AV_WC_UMR,                  0, 0, 0, 0, 0)),
};
/* clang-format on */

uint32_t av_packet_wr_opcode(const struct av_opcode *info)
{
	uint32_t opcode = 0;

	for (; opcode < AV_WR_OPCODES; opcode++) {
		const struct av_packet_kind *kind = av_packet_kind(opcode);

		if (kind && kind->operation == (enum av_operation)info->operation &&
		    kind->tail == (enum av_tail)info->tail)
			break;
	}
	return opcode;
}
