/* SPDX-License-Identifier: MIT */
/*
 * A RoCEv2 frame: Ethernet, IP and UDP around a packet, and its invariant CRC.
 *
 * Pure functions: no allocation, no state. Source: IBTA volume 1, annex A17; RFC 791, 768, 8200.
 */
#ifndef AV_WIRE_FRAME_H
#define AV_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

#define AV_ROCE_PORT	     4791
#define AV_ETH_BYTES	     14
#define AV_MTU_MAX	     4096
#define AV_FRAME_HEADERS_MAX (AV_ETH_BYTES + 40 + 8 + AV_PACKET_HEADERS_MAX)
/* With the CRC; whole MTUs need no padding. */
#define AV_FRAME_MAX (AV_FRAME_HEADERS_MAX + AV_MTU_MAX + 4)

/* Addresses as GIDs: if both are IPv4 addresses in their mapped form, the frame is of IPv4. */
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
	AV_FRAME_SHORT,	  /* it ends before its headers, or the lengths in them, say so */
	AV_FRAME_FOREIGN, /* it is not RoCEv2: another protocol or port */
	AV_FRAME_HEADER,  /* its IP or UDP header contradicts itself, or is one that RoCEv2 does not
			     have */
	AV_FRAME_CRC,	  /* the invariant CRC is wrong */
	AV_FRAME_PACKET,  /* what it carries is no packet */
};

/* The Ethernet address that stands for a port or group with that GID: of an IPv6 address made of
 * one, that one; of a group, the group's; of others one of the locally administered kind. */
void av_frame_mac(const uint8_t gid[16], uint8_t mac[6]);

/* The UDP source port of a flow. With label 0 the two queue pairs' numbers stand for it. IBTA annex
 * A17.3.2.1 leaves it open; this is rdma-core's ibv_flow_label_to_udp_sport() and the kernel's
 * choice of a label. */
uint16_t av_frame_source_port(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn);

/* Where in a frame its payload begins; 0: the opcode is not known. */
size_t av_frame_payload_at(const struct av_frame *f, uint8_t opcode);

/**
 * av_frame_put() - a frame as bytes
 * @to: @room bytes
 *
 * p->payload may be where it belongs in the frame already (av_frame_payload_at()). The UDP checksum
 * is that of RFC 8200 with IPv6, and 0 with IPv4. Return: bytes of the frame; 0: no room, or the
 * opcode is not known
 */
size_t av_frame_put(const struct av_frame *f, const struct av_packet *p, uint8_t *to, size_t room);

/**
 * av_frame_get() - understand a frame
 * @from: @bytes bytes, of which none behind is read; the link's own padding may follow the frame
 * @f, @p: out; of use if AV_FRAME_OK is returned. The payload lies in @from.
 */
AV_MUST_USE enum av_frame_fault av_frame_get(struct av_frame *f, struct av_packet *p,
					     const uint8_t *from, size_t bytes);

#endif
