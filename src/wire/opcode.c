/* SPDX-License-Identifier: MIT */
#include "wire/opcode.h"

#include "base/compiler.h"

static const uint16_t counts[AV_CREDITS_NONE_CODE] = {
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

uint8_t av_credits_code(uint32_t count)
{
	uint8_t code = AV_CREDITS_NONE_CODE - 1;

	while (counts[code] > count)
		code--;
	return code;
}

uint32_t av_credits_of(uint8_t code)
{
	return code < AV_CREDITS_NONE_CODE ? counts[code] : AV_CREDITS_UNLIMITED;
}

#define LOW_BITS 0x1f
#define H(name)	 (1u << AV_HEADER_##name)

#define FIRST  AV_PLACE_FIRST
#define MIDDLE AV_PLACE_MIDDLE
#define LAST   AV_PLACE_LAST
#define ONLY   AV_PLACE_ONLY
#define NONE   AV_TAIL_NONE
#define IMM    AV_TAIL_IMM
#define INV    AV_TAIL_INVALIDATE

/* clang-format off */
static const struct av_opcode table[LOW_BITS + 1] = {
	/*        name                          headers                     operation            place   tail  response payload */
	[0x00] = {"SEND First",                 0,                          AV_OP_SEND,          FIRST,  NONE, false, true},
	[0x01] = {"SEND Middle",                0,                          AV_OP_SEND,          MIDDLE, NONE, false, true},
	[0x02] = {"SEND Last",                  0,                          AV_OP_SEND,          LAST,   NONE, false, true},
	[0x03] = {"SEND Last with Immediate",   H(IMMDT),                   AV_OP_SEND,          LAST,   IMM,  false, true},
	[0x04] = {"SEND Only",                  0,                          AV_OP_SEND,          ONLY,   NONE, false, true},
	[0x05] = {"SEND Only with Immediate",   H(IMMDT),                   AV_OP_SEND,          ONLY,   IMM,  false, true},
	[0x06] = {"RDMA WRITE First",           H(RETH),                    AV_OP_WRITE,         FIRST,  NONE, false, true},
	[0x07] = {"RDMA WRITE Middle",          0,                          AV_OP_WRITE,         MIDDLE, NONE, false, true},
	[0x08] = {"RDMA WRITE Last",            0,                          AV_OP_WRITE,         LAST,   NONE, false, true},
	[0x09] = {"RDMA WRITE Last with Imm.",  H(IMMDT),                   AV_OP_WRITE,         LAST,   IMM,  false, true},
	[0x0a] = {"RDMA WRITE Only",            H(RETH),                    AV_OP_WRITE,         ONLY,   NONE, false, true},
	[0x0b] = {"RDMA WRITE Only with Imm.",  H(RETH) | H(IMMDT),         AV_OP_WRITE,         ONLY,   IMM,  false, true},
	[0x0c] = {"RDMA READ Request",          H(RETH),                    AV_OP_READ,          ONLY,   NONE, false, false},
	[0x0d] = {"RDMA READ Response First",   H(AETH),                    AV_OP_READ_RESPONSE, FIRST,  NONE, true,  true},
	[0x0e] = {"RDMA READ Response Middle",  0,                          AV_OP_READ_RESPONSE, MIDDLE, NONE, true,  true},
	[0x0f] = {"RDMA READ Response Last",    H(AETH),                    AV_OP_READ_RESPONSE, LAST,   NONE, true,  true},
	[0x10] = {"RDMA READ Response Only",    H(AETH),                    AV_OP_READ_RESPONSE, ONLY,   NONE, true,  true},
	[0x11] = {"Acknowledge",                H(AETH),                    AV_OP_ACK,           ONLY,   NONE, true,  false},
	[0x12] = {"ATOMIC Acknowledge",         H(AETH) | H(ATOMIC_ACK_ETH), AV_OP_ATOMIC_ACK,   ONLY,   NONE, true,  false},
	[0x13] = {"CmpSwap",                    H(ATOMIC_ETH),              AV_OP_CMP_SWAP,      ONLY,   NONE, false, false},
	[0x14] = {"FetchAdd",                   H(ATOMIC_ETH),              AV_OP_FETCH_ADD,     ONLY,   NONE, false, false},
	[0x16] = {"SEND Last with Invalidate",  H(IETH),                    AV_OP_SEND,          LAST,   INV,  false, true},
	[0x17] = {"SEND Only with Invalidate",  H(IETH),                    AV_OP_SEND,          ONLY,   INV,  false, true},
	[0x1c] = {"FLUSH",                      H(FETH) | H(RETH),          AV_OP_FLUSH,         ONLY,   NONE, false, false},
	[0x1d] = {"ATOMIC WRITE",               H(RETH),                    AV_OP_ATOMIC_WRITE,  ONLY,   NONE, false, true},
};

static const struct av_opcode notification =
	 {"Congestion Notification",            H(CNP),                     AV_OP_CNP,           ONLY,   NONE, true,  false};

static const struct {
	uint8_t bits;
	uint16_t request_headers; /* headers that every request has in addition */
	uint32_t opcodes;	  /* which rows of the table exist: a bit for each */
} services[] = {
	{AV_SERVICE_RC,  0,         0x30dfffff},
	{AV_SERVICE_UC,  0,         0x00000fff},
	{AV_SERVICE_UD,  H(DETH),   0x00000030},
	{AV_SERVICE_XRC, H(XRCETH), 0x30dfffff},
};
/* clang-format on */

bool av_opcode_info(uint8_t opcode, struct av_opcode *info)
{
	uint8_t low = opcode & LOW_BITS;

	if (opcode == AV_OPCODE_CNP) {
		*info = notification;
		return true;
	}
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(services); i++) {
		if (services[i].bits != (opcode & ~LOW_BITS))
			continue;
		*info = table[low];
		if (!info->response)
			info->headers |= services[i].request_headers;
		return services[i].opcodes >> low & 1;
	}
	return false;
}

int av_opcode_find(enum av_service service, enum av_operation operation, enum av_place place,
		   enum av_tail tail)
{
	for (unsigned int low = 0; low <= LOW_BITS; low++) {
		const struct av_opcode *row = &table[low];
		struct av_opcode info;

		if (row->name && row->operation == operation && row->place == place &&
		    row->tail == tail)
			return av_opcode_info((uint8_t)(service | low), &info)
				       ? (int)(service | low)
				       : -1;
	}
	return -1;
}
