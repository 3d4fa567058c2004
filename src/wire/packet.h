/* SPDX-License-Identifier: MIT */
/*
 * A packet of the transport layer: base header (BTH), extended headers, payload and padding, as
 * numbers and as bytes. What is around it - addresses, and the CRC over all - is wire/frame.h's.
 *
 * Pure functions: no allocation, no state. Source: IBTA volume 1, chapter 9.2 to 9.6.
 */
#ifndef AV_WIRE_PACKET_H
#define AV_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/opcode.h"

#define AV_PACKET_HEADERS_MAX 64 /* no packet's BTH and extended headers are longer */
#define AV_PSN_MASK	      0xffffffu

/* AETH syndromes; IBTA volume 1, 9.7.5.2.2. */
#define AV_SYNDROME_ACK	     0x1f /* without end-to-end credits */
#define AV_SYNDROME_RNR_NAK  0x20 /* | timer code */
#define AV_SYNDROME_SEQUENCE 0x60

/* In host byte order. A packet has those of the extended headers that its opcode says; the others
 * are not looked at. */
struct av_packet {
	uint8_t opcode;
	bool solicited, migrated, fecn, becn, ack_request;
	uint16_t pkey;
	uint32_t dest_qpn, psn; /* 24 bits each */

	uint32_t srqn;			/* XRCETH: 24 bits */
	uint32_t qkey, src_qpn;		/* DETH */
	uint8_t placement, selectivity; /* FETH: 4 and 2 bits */
	uint64_t addr;			/* RETH, AtomicETH, */
	uint32_t rkey;			/* likewise */
	uint32_t length;		/* RETH */
	uint64_t swap_add, compare;	/* AtomicETH */
	uint8_t syndrome;		/* AETH */
	uint32_t msn;			/* 24 bits */
	uint64_t original;		/* AtomicAckETH */
	uint32_t imm;			/* ImmDt */
	uint32_t invalidate;		/* IETH */

	const uint8_t *payload; /* borrowed */
	uint32_t payload_bytes; /* without padding */
};

enum av_packet_fault {
	AV_PACKET_OK,
	AV_PACKET_SHORT,   /* it ends within a header, */
	AV_PACKET_VERSION, /* is of another version of the transport, */
	AV_PACKET_OPCODE,  /* has an opcode that is not known here, */
	AV_PACKET_PADDING, /* is no multiple of four bytes, or has more padding than payload, */
	AV_PACKET_PAYLOAD, /* or a payload where there is none, or one of another size */
};

/* Bytes of the padding behind a payload. */
static inline uint32_t av_packet_padding(uint32_t payload_bytes)
{
	return -payload_bytes & 3;
}

/* Bytes of the headers that packets of this opcode have, BTH included; 0: there is no such opcode.
 */
size_t av_packet_header_bytes(uint8_t opcode);

/**
 * av_packet_put_headers() - the headers as bytes
 * @to: room for av_packet_header_bytes(), which is what is written
 * Return: that number; 0: the opcode is not known, nothing was written
 */
size_t av_packet_put_headers(const struct av_packet *p, uint8_t *to);

/**
 * av_packet_get() - understand a packet
 * @from: @bytes bytes from the BTH to the end of the padding: without the CRC. Nothing else is
 * read.
 * @p: out; its payload lies in @from. Fields of headers that the packet does not have are 0.
 */
AV_MUST_USE enum av_packet_fault av_packet_get(struct av_packet *p, const uint8_t *from,
					       size_t bytes);

#endif
