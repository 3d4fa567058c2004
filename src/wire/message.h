/* SPDX-License-Identifier: MIT */
/*
 * Messages as packets: into how many a message of so many bytes is cut, and what each of them is.
 * Pure functions. Source: IBTA volume 1, 9.2.1 (segmentation), 9.3.1 (PSN).
 */
#ifndef AV_WIRE_MESSAGE_H
#define AV_WIRE_MESSAGE_H

#include <stdint.h>

#include "wire/packet.h"

/* A message of one requester or responder. */
struct av_wire_message {
	enum av_service service;
	enum av_operation operation; /* of its packets */
	enum av_tail tail;
	uint64_t bytes; /* of payload; not of what a READ asks for */
	uint32_t mtu;	/* 256, 512, ... AV_MTU_MAX */
	/*
	 * What the packets have in common, with the first one's PSN. Solicited event and a request
	 * for acknowledgement are of the last packet; the opcode and the payload are found here.
	 */
	struct av_packet head;
};

/* How many packets: one at least. */
static inline uint32_t av_wire_packets(uint64_t bytes, uint32_t mtu)
{
	return bytes ? (uint32_t)((bytes + mtu - 1) / mtu) : 1;
}

/**
 * av_wire_packet() - packet @index, from 0, of a message
 * @p: out, but for the payload's address
 * Return: where in the message its payload begins; -1: the service has no such packets
 */
int64_t av_wire_packet(const struct av_wire_message *m, uint32_t index, struct av_packet *p);

#endif
