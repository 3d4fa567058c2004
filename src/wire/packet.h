/* SPDX-License-Identifier: MIT */
/*
 * Packets and frames, as structures and as bytes: opcodes and headers, how a message is cut into
 * packets, the headers around a packet, and its invariant CRC. All functions are pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"

/* === packet ====================================================================== */

/* Read and write numbers in network byte order, at any alignment. */

static inline void av_put16(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 8);
	to[1] = (uint8_t)v;
}

static inline void av_put24(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 16);
	av_put16(to + 1, v);
}

static inline void av_put32(uint8_t *to, uint32_t v)
{
	av_put16(to, v >> 16);
	av_put16(to + 2, v);
}

static inline uint16_t av_get16(const uint8_t *from)
{
	return (uint16_t)(from[0] << 8 | from[1]);
}

static inline uint32_t av_get24(const uint8_t *from)
{
	return (uint32_t)from[0] << 16 | av_get16(from + 1);
}

static inline uint32_t av_get32(const uint8_t *from)
{
	return (uint32_t)av_get16(from) << 16 | av_get16(from + 2);
}

/*
 * Where a member of a structure is in a header or a message: a number, big endian, or an array of
 * bytes. Bit 0 is the most significant one of its byte.
 */
struct av_wire_field {
	uint8_t byte, bit;
	uint16_t bits;	 /* of numbers up to 64; 0: the table ends */
	uint16_t member; /* offset in the structure */
	uint8_t member_bytes;
	uint8_t shift; /* low bits of the number that belong to another field */
};

#define AV_WIRE_FIELD(type, byte, bit, bits, member, shift)                                 \
	{                                                                                   \
		byte, bit, bits, offsetof(type, member), sizeof(((type *)0)->member), shift \
	}

/*
 * Write the fields of a table to bytes that are 0 before, or read them into a structure whose
 * numbers are 0 before.
 */
void av_wire_fields_put(const struct av_wire_field *f, size_t count, const void *from, uint8_t *to);
void av_wire_fields_get(const struct av_wire_field *f, size_t count, void *to, const uint8_t *from);

/* End-to-end credits in AETH syndromes, 5 bits. IBTA volume 1, 9.7.5.2.2, table "Credit count". */

#define AV_CREDITS_NONE_CODE 31u	/* the responder reports no number */
#define AV_CREDITS_UNLIMITED (1u << 24) /* more than a send queue holds */

/* The code of @count, rounded down. */
uint8_t av_credits_code(uint32_t count);

/* The number that a code stands for; AV_CREDITS_UNLIMITED: the responder reports no number. */
uint32_t av_credits_of(uint8_t code);

/*
 * Which headers an opcode has, and which part of which operation it is. Source: IBTA volume 1,
 * 9.2.1 (opcodes), 5.2 (order of headers), annexes A14 (XRC), A17 (CNP), A19 (FLUSH, ATOMIC WRITE).
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
	AV_OP_CNP, /* congestion notification: no service, no sequence */
};

#define AV_OPCODE_ACK 0x11 /* of RC */
#define AV_OPCODE_CNP 0x81

enum av_place {
	AV_PLACE_FIRST,
	AV_PLACE_MIDDLE,
	AV_PLACE_LAST,
	AV_PLACE_ONLY,
};

/* What the last packet has beside payload. */
enum av_tail {
	AV_TAIL_NONE,
	AV_TAIL_IMM,
	AV_TAIL_INVALIDATE,
};

struct av_opcode {
	const char *name; /* NULL: no such opcode */
	uint16_t headers; /* bits of enum av_header, without those of its service */
	uint8_t operation, place, tail;
	bool response;
	bool payload; /* may have payload */
};

/* The row of an opcode. NULL: it is unknown */
const struct av_opcode *av_opcode_info(uint8_t opcode);

/* Find the opcode of such a packet. Return: -1: the service has none. */
int av_opcode_find(enum av_service service, enum av_operation operation, enum av_place place,
		   enum av_tail tail);

/* A packet: BTH, extended headers, payload, padding. Source: IBTA volume 1, chapter 9.2 to 9.6. */

#define AV_PACKET_HEADERS_MAX 64 /* longest BTH with extended headers */
#define AV_PSN_MASK	      0xffffffu

/* The PSN that follows that number of packets. */
#define AV_PSN_AFTER(psn, packets) (((psn) + (packets)) & AV_PSN_MASK)

/* Signed distance from PSN @from to PSN @to, of at most half of all PSNs. */
static inline int32_t av_psn_distance(uint32_t from, uint32_t to)
{
	return (int32_t)((to - from) << 8) >> 8;
}

/* AETH syndromes; IBTA volume 1, 9.7.5.2.2. */
#define AV_SYNDROME_ACK	    0x1f /* alone: no credits; else AND their code */
#define AV_SYNDROME_RNR_NAK 0x20 /* OR the timer code */

/* In host byte order. Writing a packet ignores the fields of headers that its opcode lacks. */
struct av_packet {
	uint8_t opcode;
	bool solicited, migrated, fecn, becn, ack_request;
	bool understands, carries; /* carried acknowledgements */
	uint8_t filler;		   /* bytes */
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
	uint32_t payload_bytes; /* without what is behind it: av_packet_behind() */
	uint32_t carried; /* acknowledgement: syndrome, and the last PSN that it acknowledges */
};

enum av_packet_error {
	AV_PACKET_OK,
	AV_PACKET_SHORT,   /* ends within a header */
	AV_PACKET_VERSION, /* unknown transport version */
	AV_PACKET_OPCODE,  /* unknown opcode */
	AV_PACKET_PADDING, /* not a multiple of four bytes, or more padding than payload */
	AV_PACKET_PAYLOAD, /* payload where none is allowed, or of the wrong size */
};

/*
 * Behind the payload, a packet of RC may have what is nothing of RoCE, and payload to others
 * (docs/WIRE.md). Flags of the BTH say so, which others send as 0 and ignore. First a carried
 * acknowledgement, of SEND and RDMA WRITE. Then a filler, a multiple of four bytes: the kernel
 * sends packets together that are equally long, so those with shorter headers than the first of
 * their message get zeros, and a last byte that says how many bytes there are.
 */
#define AV_CARRIED_BYTES 4u

static inline bool av_operation_carries(enum av_operation operation)
{
	return operation == AV_OP_SEND || operation == AV_OP_WRITE;
}

#define AV_MTU_SHIFT(mtu) (7u + (mtu)) /* 2 to that power: bytes of an enum ibv_mtu */

/* The number of packets, at least one, of a message of @bytes. @shift: as AV_MTU_SHIFT() */
#define AV_MTU_PACKETS(bytes, shift) \
	((bytes) ? (uint32_t)(((bytes) + (1u << (shift)) - 1) >> (shift)) : 1)

/* Bytes of an enum ibv_mtu. An invalid value counts as IBV_MTU_256: a peer may have written it. */
static inline uint32_t av_mtu_bytes(uint32_t mtu)
{
	return 1u << AV_MTU_SHIFT(mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? mtu : IBV_MTU_256);
}

/* The largest path MTU whose packets fit an interface of MTU @bytes; at least IBV_MTU_256 */
enum ibv_mtu av_mtu_within(uint32_t bytes);

static inline uint32_t av_packet_padding(uint32_t payload_bytes)
{
	return -payload_bytes & 3;
}

/* Bytes of a carried acknowledgement and of a filler. */
static inline uint32_t av_packet_behind(const struct av_packet *p)
{
	return (p->carries ? AV_CARRIED_BYTES : 0) + p->filler;
}

/* Write what is behind the payload, and the padding. Return: where they end */
uint8_t *av_packet_put_behind(const struct av_packet *p, uint8_t *to);

/* Bytes of all headers of a packet with this opcode, including the BTH; 0: unknown opcode. */
size_t av_packet_header_bytes(uint8_t opcode);

/* Write a packet's headers to @to (av_packet_header_bytes()). Return: bytes; 0: unknown opcode */
size_t av_packet_put_headers(const struct av_packet *p, uint8_t *to);

/* Have a packet whose headers have been put ask for an acknowledgement. */
void av_packet_ask(uint8_t *headers);

/*
 * Decode a packet of @bytes, from the BTH to the end of the padding; reads no others. @p: out, if
 * the result is AV_PACKET_OK; fields of absent headers are 0; @payload points into @from
 */
AV_MUST_USE enum av_packet_error av_packet_get(struct av_packet *p, const uint8_t *from,
					       size_t bytes);

/*
 * Cutting messages into packets. Source: IBTA volume 1, 9.2.1 (segmentation), 9.3.1 (PSN).
 *
 * The longest message, in bytes, that a peer may announce, whatever its port's max_msg_sz is: IBTA
 * volume 1, C9-94. With the smallest MTU, a longer one would use more than half of the PSNs.
 */
#define AV_WIRE_MESSAGE_MAX (1u << 31)

/* A request as its requester sends it, or an answer as its responder sends it. */
struct av_wire_message {
	enum av_service service;
	enum av_operation operation; /* operation of its packets */
	enum av_tail tail;
	uint64_t bytes; /* of payload that it carries; 0 for a READ request of any length */
	uint32_t mtu;	/* 256, 512, ... AV_MTU_MAX */
	bool fills;	/* packets have fillers */
	/* Of all packets; @psn: the first one's; @solicited, @ack_request: the last one's. */
	struct av_packet head;
};

/* AV_MTU_PACKETS(). @mtu: as in struct av_wire_message */
static inline uint32_t av_wire_packets(uint64_t bytes, uint32_t mtu)
{
	return AV_MTU_PACKETS(bytes, __builtin_ctz(mtu));
}

/* Make packet @index's headers. Return: its payload's offset in the message; -1: no such packet */
int64_t av_wire_packet(const struct av_wire_message *m, uint32_t index, struct av_packet *p);

/* === frame ======================================================================= */

/*
 * The invariant CRC (ICRC) of a packet whose IP and UDP headers the kernel writes and hides.
 * Source: IBTA volume 1, 7.8.1 and annex A17.3.3.
 *
 * The CRC covers the IPv4 identification, which a UDP socket does not show. A CRC is linear, so the
 * 2^16 identifications give 2^16 different CRCs. The receiver computes which identification fits. A
 * corrupted packet fits one by chance once in 65,536. IPv6 has no identification.
 */

/* What IP and UDP say of a packet. Addresses are GIDs. */
struct av_net_path {
	uint8_t src[16], dst[16]; /* if both are mapped IPv4 addresses, the packet is in IPv4 */
	uint32_t flow_label;	  /* 20 bits; IPv6 only */
	uint16_t source_port;
	uint16_t identification; /* IPv4 only */
	uint8_t traffic_class, hop_limit;
};

/*
 * The ICRC of a packet, for av_icrc_put(). It covers the addresses, port and identification of
 * @path. @packet: @bytes, from a complete BTH to the end of the padding, in an unfragmented
 * datagram to port 4791 with DF set
 */
uint32_t av_icrc_of(const struct av_net_path *path, const uint8_t *packet, size_t bytes);

/*
 * Is @icrc right? With IPv4 this tries @path's identification, then all others, and stores in @path
 * the one that fits.
 */
AV_MUST_USE bool av_icrc_fits(struct av_net_path *path, const uint8_t *packet, size_t bytes,
			      uint32_t icrc);

/* Consecutive datagrams of one flow that the kernel has joined (UDP_GRO). Untrusted. */
struct av_gro_split {
	struct av_net_path path;
	const uint8_t *bytes; /* borrowed */
	size_t count;
	size_t segment; /* bytes of each datagram; the last has the rest. 0: there is only one */
	size_t at;	/* offset of the next datagram; 0 at first */
};

enum av_datagram_error {
	AV_DATAGRAM_OK,	     /* a packet with a correct ICRC */
	AV_DATAGRAM_SHORT,   /* no packet */
	AV_DATAGRAM_BAD_CRC, /* a packet, but it may be wrong */
};

/*
 * Split the next datagram off. @path: out, with the identification that fits. @p: out, not complete
 * with AV_DATAGRAM_SHORT; its payload is borrowed from @cut. Return: false: there is none
 */
AV_MUST_USE bool av_gro_next(struct av_gro_split *cut, struct av_net_path *path,
			     struct av_packet *p, enum av_datagram_error *error);

/* Ethernet, IP and UDP headers, packet, ICRC. IBTA volume 1, annex A17; RFC 791, 768, 8200. */

#define AV_ROCE_PORT	     4791
#define AV_ETH_BYTES	     14
#define AV_IP_HEADERS_MAX    48 /* IPv6 and UDP */
#define AV_ICRC_BYTES	     4
#define AV_MTU_MAX	     4096
#define AV_FRAME_HEADERS_MAX (AV_ETH_BYTES + AV_IP_HEADERS_MAX + AV_PACKET_HEADERS_MAX)
#define AV_FRAME_MAX \
	(AV_FRAME_HEADERS_MAX + AV_MTU_MAX + AV_ICRC_BYTES) /* a whole MTU needs no padding */

/* Is the GID a mapped IPv4 address, of a host or of a group? */
bool av_frame_gid_is_ipv4(const uint8_t gid[16]);

struct av_frame {
	uint8_t eth_dst[6], eth_src[6];
	struct av_net_path path;
};

/* A GID's Ethernet address: the MAC address in it, the group's, or a locally administered one. */
void av_frame_mac(const uint8_t gid[16], uint8_t mac[6]);

/*
 * The UDP source port of a flow. If @flow_label is 0, both queue pair numbers decide. Annex
 * A17.3.2.1 prescribes none: as ibv_flow_label_to_udp_sport() and the kernel.
 */
uint16_t av_frame_source_port(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn);

/*
 * The invariant CRC (IBTA volume 1, 7.8.1; annex A17.3.3). Bytes that may change in transit do not
 * matter. @ip: IP header (without IPv4 options) and UDP header. @packet: as av_icrc_of()
 */
uint32_t av_icrc(const uint8_t *ip, const uint8_t *packet, size_t bytes);

/* Write and read the CRC, the only little-endian number of a packet. */
static inline void av_icrc_put(uint8_t *to, uint32_t crc)
{
	for (int i = 0; i < AV_ICRC_BYTES; i++)
		to[i] = (uint8_t)(crc >> 8 * i);
}

static inline uint32_t av_icrc_get(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* Offset of the payload in a frame; 0: unknown opcode. */
size_t av_frame_payload_at(const struct av_frame *f, uint8_t opcode);

/*
 * Write a frame. The UDP checksum follows RFC 8200 with IPv6, and is 0 with IPv4. The payload may
 * already be at av_frame_payload_at(). Return: bytes; 0: they exceed @room, or unknown opcode
 */
size_t av_frame_put(const struct av_frame *f, const struct av_packet *p, uint8_t *to, size_t room);

/*
 * Write a frame around any UDP datagram. @checksum: with IPv4, too, write a UDP checksum. @room: at
 * least AV_FRAME_HEADERS_MAX; cuts the rest off. Return: bytes of the whole frame
 */
size_t av_frame_wrap(const struct av_frame *f, bool checksum, const uint8_t *datagram, size_t bytes,
		     uint8_t *to, size_t room);
