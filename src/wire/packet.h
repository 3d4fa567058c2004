/* SPDX-License-Identifier: MIT */
/*
 * A transport packet, as numbers and as bytes: base header (BTH), extended headers, payload,
 * padding. Pure functions. Source: IBTA volume 1, chapter 9.2 to 9.6. What is around it:
 * wire/frame.h.
 */
#ifndef AV_WIRE_PACKET_H
#define AV_WIRE_PACKET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/opcode.h"

#define AV_PACKET_HEADERS_MAX 64 /* longest BTH with extended headers */
#define AV_PSN_MASK	      0xffffffu

/* Signed distance from PSN @from to @to, within half of the circle. */
static inline int32_t av_psn_distance(uint32_t from, uint32_t to)
{
	return (int32_t)((to - from) << 8) >> 8;
}

static inline uint32_t av_psn_after(uint32_t psn, uint32_t packets)
{
	return (psn + packets) & AV_PSN_MASK;
}

/* AETH syndromes; IBTA volume 1, 9.7.5.2.2. */
#define AV_SYNDROME_ACK	    0x1f /* AND the code of credits; so: none are counted */
#define AV_SYNDROME_RNR_NAK 0x20 /* OR the timer code */

/* In host byte order. Fields of extended headers that the opcode does not bring are ignored. */
struct av_packet {
	uint8_t opcode;
	bool solicited, migrated, fecn, becn, ack_request;
	uint16_t pkey;
	uint32_t dest_qpn, psn; /* 24 bits each */

	uint32_t srqn;			/* XRCETH: 24 bits */
	uint32_t qkey, src_qpn;		/* DETH */
	uint8_t placement, selectivity; /* FETH: 4 and 2 bits */
	uint64_t addr;			/* RETH and AtomicETH */
	uint32_t rkey;			/* RETH and AtomicETH */
	uint32_t length;		/* RETH */
	uint64_t swap_add, compare;	/* AtomicETH */
	uint8_t syndrome;		/* AETH */
	uint32_t msn;			/* AETH: 24 bits */
	uint64_t original;		/* AtomicAckETH */
	uint32_t imm;			/* ImmDt */
	uint32_t invalidate;		/* IETH */

	const uint8_t *payload; /* borrowed */
	uint32_t payload_bytes; /* without padding */
};

enum av_packet_fault {
	AV_PACKET_OK,
	AV_PACKET_SHORT,   /* ends within a header */
	AV_PACKET_VERSION, /* unknown transport version */
	AV_PACKET_OPCODE,  /* unknown opcode */
	AV_PACKET_PADDING, /* not a multiple of four bytes, or more padding than payload */
	AV_PACKET_PAYLOAD, /* payload where none is allowed, or of the wrong size */
};

/* In bytes, of enum ibv_mtu; a peer's segment may say anything. */
static inline uint32_t av_mtu_bytes(uint32_t mtu)
{
	return 128u << (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? mtu : IBV_MTU_256);
}

/*
 * The largest path MTU whose packets fit an interface. @bytes: the MTU of the interface
 * Return: at least IBV_MTU_256, which every interface with IPv6 carries
 */
enum ibv_mtu av_mtu_within(uint32_t bytes);

/* Bytes of padding after a payload. */
static inline uint32_t av_packet_padding(uint32_t payload_bytes)
{
	return -payload_bytes & 3;
}

/* Bytes of all headers of a packet with this opcode, BTH included; 0: unknown opcode. */
size_t av_packet_header_bytes(uint8_t opcode);

/* @to: room for av_packet_header_bytes(). Return: bytes written; 0: unknown opcode. */
size_t av_packet_put_headers(const struct av_packet *p, uint8_t *to);

/*
 * @from: @bytes from the BTH to the end of the padding, where the payload stays; no more is read.
 * Fields of absent headers are 0.
 */
AV_MUST_USE enum av_packet_fault av_packet_get(struct av_packet *p, const uint8_t *from,
					       size_t bytes);

/*
 * Messages in packets: how many, and each one's headers. Pure functions. Source: IBTA volume
 * 1, 9.2.1 (segmentation), 9.3.1 (PSN).
 */

/*
 * Bytes of a message that a peer may announce, whatever its port's max_msg_sz is: IBTA volume 1,
 * C9-94. More packets would be beyond half of the PSNs.
 */
#define AV_WIRE_MESSAGE_MAX (1u << 31)

/* A message from a requester, or a responder's answer. */
struct av_wire_message {
	enum av_service service;
	enum av_operation operation; /* the operation of its packets */
	enum av_tail tail;
	uint64_t bytes; /* payload carried; 0 for a READ request, whatever it asks for */
	uint32_t mtu;	/* 256, 512, ... AV_MTU_MAX */
	/* Of all packets, with the first PSN. @solicited, @ack_request: of the last only. */
	struct av_packet head;
};

/* The number of packets, at least one. */
static inline uint32_t av_wire_packets(uint64_t bytes, uint32_t mtu)
{
	return bytes ? (uint32_t)((bytes + mtu - 1) / mtu) : 1;
}

/* Headers of packet @index. Return: its payload's offset; -1: the service has no such packet. */
int64_t av_wire_packet(const struct av_wire_message *m, uint32_t index, struct av_packet *p);

#endif
