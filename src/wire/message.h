/* SPDX-License-Identifier: MIT */
/*
 * Messages in packets: how many, and each one's headers. Pure functions. Source: IBTA volume
 * 1, 9.2.1 (segmentation), 9.3.1 (PSN).
 */
#ifndef AV_WIRE_MESSAGE_H
#define AV_WIRE_MESSAGE_H

#include <stdint.h>

#include "wire/packet.h"

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
