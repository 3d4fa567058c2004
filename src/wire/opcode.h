/* SPDX-License-Identifier: MIT */
/* Opcodes of packets, and the credits of an acknowledgement. */
#ifndef AV_WIRE_OPCODE_H
#define AV_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * End-to-end credits in the syndrome of an acknowledgement: how many receive requests the responder
 * has, in five bits. Source: IBTA volume 1, 9.7.5.2.2, table "Credit count".
 */

#define AV_CREDITS_NONE_CODE 31u	/* the responder does not count */
#define AV_CREDITS_UNLIMITED (1u << 24) /* more than a send queue holds */

/* The code for so many, rounded down. Context of both: any */
uint8_t av_credits_code(uint32_t count);

/* How many a code stands for; AV_CREDITS_UNLIMITED: the responder does not count. */
uint32_t av_credits_of(uint8_t code);

/*
 * Which headers an opcode has, and which part of which operation it is: a table of the low five
 * bits, and one of the services. Source: IBTA volume 1, 9.2.1 (OpCode values), 5.2 (order of
 * headers), annex A14 (XRC), A17 (congestion notification), A19 (FLUSH, ATOMIC WRITE).
 */

/* The high three bits of an opcode. */
enum av_service {
	AV_SERVICE_RC = 0x00,
	AV_SERVICE_UC = 0x20,
	AV_SERVICE_UD = 0x60,
	AV_SERVICE_XRC = 0xa0,
};

/* Extended headers, in their order within a packet. */
enum av_header {
	AV_HEADER_XRCETH,
	AV_HEADER_DETH,
	AV_HEADER_FETH,
	AV_HEADER_RETH,
	AV_HEADER_ATOMIC_ETH,
	AV_HEADER_AETH,
	AV_HEADER_ATOMIC_ACK_ETH,
	AV_HEADER_IMMDT,
	AV_HEADER_IETH,
	AV_HEADER_CNP, /* reserved bytes of a congestion notification */
	AV_HEADER_N
};

enum av_operation {
	AV_OP_SEND,
	AV_OP_WRITE,
	AV_OP_READ,
	AV_OP_READ_RESPONSE,
	AV_OP_ACK,
	AV_OP_ATOMIC_ACK,
	AV_OP_CMP_SWAP,
	AV_OP_FETCH_ADD,
	AV_OP_FLUSH,
	AV_OP_ATOMIC_WRITE,
	AV_OP_CNP, /* congestion notification: of no service, without a sequence */
};

#define AV_OPCODE_CNP 0x81

/* Position of a packet in its message. */
enum av_place {
	AV_PLACE_FIRST,
	AV_PLACE_MIDDLE,
	AV_PLACE_LAST,
	AV_PLACE_ONLY,
};

/* What the last packet carries beside payload. */
enum av_tail {
	AV_TAIL_NONE,
	AV_TAIL_IMM,
	AV_TAIL_INVALIDATE,
};

struct av_opcode {
	const char *name; /* NULL: no such opcode */
	uint16_t headers; /* bit mask of enum av_header */
	uint8_t operation, place, tail;
	bool response;
	bool payload; /* may have payload */
};

/* What an opcode means. Return: false if it is unknown. */
bool av_opcode_info(uint8_t opcode, struct av_opcode *info);

/* Return: the opcode of such a packet, or -1 if the service has none. */
int av_opcode_find(enum av_service service, enum av_operation operation, enum av_place place,
		   enum av_tail tail);

#endif
