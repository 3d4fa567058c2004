/* SPDX-License-Identifier: MIT */
/* What is around a packet on Ethernet, and its invariant CRC. */
#ifndef AV_WIRE_FRAME_H
#define AV_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

/*
 * The invariant CRC of a packet whose IP and UDP headers the kernel writes and hides. Pure
 * functions. Source: IBTA volume 1, 7.8.1 and annex A17.3.3.
 *
 * The CRC covers the IPv4 identification, which a UDP socket does not show. It is linear, so the
 * 2^16 identifications give 2^16 different CRCs: the receiver solves for the one that fits. A
 * corrupted packet fits one by chance once in 65,536. IPv6 has no identification.
 */

/* The fields of the headers around a packet that its ICRC covers. Addresses are GIDs. */
struct av_icrc_path {
	uint8_t src[16], dst[16]; /* both mapped IPv4 addresses: the packet is in IPv4 */
	uint16_t source_port;
	uint16_t identification; /* IPv4 only */
};

/*
 * @packet: @bytes from the BTH, which is whole, to the end of the padding, in an unfragmented
 * datagram to port 4791 with DF set. Return: the ICRC, which av_icrc_put() stores
 */
uint32_t av_icrc_of(const struct av_icrc_path *path, const uint8_t *packet, size_t bytes);

/*
 * Is @icrc right? @path->identification: tried first; with IPv4, if it does not fit, any that
 * does. Return: true, with the identification that fits in @path
 */
AV_MUST_USE bool av_icrc_fits(struct av_icrc_path *path, const uint8_t *packet, size_t bytes,
			      uint32_t icrc);

/*
 * A RoCEv2 frame: Ethernet, IP and UDP around a packet, and its invariant CRC. Pure functions.
 * Source: IBTA volume 1, annex A17; RFC 791, 768, 8200.
 */

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

/* Addresses are GIDs. If both are mapped IPv4 addresses, the frame uses IPv4. */
struct av_frame {
	uint8_t eth_dst[6], eth_src[6];
	uint8_t dst[16], src[16];
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;	 /* 20 bits; IPv6 only */
	uint16_t identification; /* IPv4 only */
	uint16_t source_port;
};

enum av_frame_fault {
	AV_FRAME_OK,
	AV_FRAME_SHORT,	  /* ends within its headers, or before the end that they state */
	AV_FRAME_FOREIGN, /* not RoCEv2: another protocol or port */
	AV_FRAME_HEADER,  /* inconsistent IP or UDP header, or one that RoCEv2 does not allow */
	AV_FRAME_CRC,	  /* the invariant CRC is wrong */
	AV_FRAME_PACKET,  /* carries no valid packet */
};

/*
 * The Ethernet address for a GID: of an IPv6 address made from a MAC address, that one; of a group,
 * the group's; of anything else, a locally administered one.
 */
void av_frame_mac(const uint8_t gid[16], uint8_t mac[6]);

/*
 * A flow's UDP source port; a label of 0 means the two queue pair numbers. Annex A17.3.2.1 leaves
 * it open: as rdma-core's ibv_flow_label_to_udp_sport() and the kernel.
 */
uint16_t av_frame_source_port(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn);

/*
 * The invariant CRC, IBTA volume 1, 7.8.1 and annex A17.3.3. @ip: IP header (without IPv4 options)
 * and UDP header; @packet: @bytes from the BTH to the end of the padding. Fields that may change on
 * the way may have any value.
 */
uint32_t av_icrc(const uint8_t *ip, const uint8_t *packet, size_t bytes);

/* Write and read the CRC: the only little-endian number of a packet. */
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
 * The UDP checksum follows RFC 8200 with IPv6, and is 0 with IPv4. The payload may already be in
 * its place (av_frame_payload_at()). Return: bytes; 0: more than @room, or unknown opcode.
 */
size_t av_frame_put(const struct av_frame *f, const struct av_packet *p, uint8_t *to, size_t room);

/*
 * Write a frame around what UDP carries, whatever that is. @checksum: UDP has one with IPv4, too.
 * @room: for AV_FRAME_HEADERS_MAX at least; what does not fit is cut off.
 * Return: bytes that the whole frame has
 */
size_t av_frame_wrap(const struct av_frame *f, bool checksum, const uint8_t *datagram, size_t bytes,
		     uint8_t *to, size_t room);

/*
 * Reads @bytes, perhaps with the link's padding. @f, @p: out, valid only with AV_FRAME_OK; the
 * payload stays in @from.
 */
AV_MUST_USE enum av_frame_fault av_frame_get(struct av_frame *f, struct av_packet *p,
					     const uint8_t *from, size_t bytes);

#endif
