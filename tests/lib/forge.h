/* SPDX-License-Identifier: MIT */
/*
 * Packets that a test makes itself, from a socket at host 0's address (lib/two_hosts.h) to queue
 * pairs of host 1.
 */
#ifndef TEST_FORGE_H
#define TEST_FORGE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "wire/packet.h"

/* Opcodes of RC. Those of others have their service's bits in addition. */
enum {
	SEND_FIRST,
	SEND_MIDDLE,
	SEND_LAST,
	SEND_ONLY = 0x04,
	WRITE_FIRST = 0x06,
	WRITE_MIDDLE,
	WRITE_LAST,
	WRITE_ONLY = 0x0a,
	READ_REQUEST = 0x0c,
	READ_FIRST,
	READ_MIDDLE,
	READ_LAST,
	READ_ONLY,
	ACKNOWLEDGE,
	ATOMIC_ANSWER,
	FETCH_ADD = 0x14,
	ATOMIC_WRITE = 0x1d,
	UC = 0x20,
	UD = 0x60,
	XRC = 0xa0,
};

/* Syndromes of an acknowledgement: no credits are counted; NAKs. */
enum { ACK = 0x1f, RNR_NAK = 0x20, SEQUENCE = 0x60, INVALID, ACCESS, OPERATION };

/* What is wrong with a packet; SOURCE: it comes from another address, QPN: it goes to another. */
enum harm { NONE, VERSION, ICRC, PKEY, SOURCE, QPN, MIGRATION };

extern const union ibv_gid forge_gid; /* of host 0 */

/* Call it once, on host 0, where no side is. */
void forge_open(void);

/* Its partition key, destination and payload are filled in. */
void forge_send(uint32_t qpn, struct av_packet p, enum harm harm);

/* A datagram of UD to all members of that group. */
extern const union ibv_gid forge_group;
void forge_send_to_group(struct av_packet p);

/*
 * What comes back to host 0. @p: its payload is there until the next call. Return: false: nothing
 * has come in time
 */
bool forge_receive(struct av_packet *p, int ms);

#endif
