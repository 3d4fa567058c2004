/* SPDX-License-Identifier: MIT */
/*
 * Requests and answers as messages of RoCEv2 packets, for captures and for the wire. Functions read
 * the requester's queue pair and change nothing. Context: its right @exec is held, unless noted.
 */
#ifndef AV_TRANSPORT_TO_PACKETS_H
#define AV_TRANSPORT_TO_PACKETS_H

#include <stdint.h>

#include "queue/qp.h"
#include "wire/message.h"

/* The operation of a request's packets, what its last packet carries, and its answer's operation.
 */
struct av_packet_kind {
	enum av_operation operation;
	enum av_tail tail;
	enum av_operation answer;
};

/* By opcode of the request. NULL: it sends no packets. Context: any. */
const struct av_packet_kind *av_packet_kind(uint32_t opcode);

/*
 * The opcode of the request that a request packet is of, as far as it shows: only the last packet
 * of a message says what it carries beside payload. Context: any
 */
uint32_t av_packet_wr_opcode(const struct av_opcode *info);

/* Do its packets carry the request's bytes? */
static inline bool av_packet_kind_has_payload(const struct av_packet_kind *k)
{
	return k->operation == AV_OP_SEND || k->operation == AV_OP_WRITE ||
	       k->operation == AV_OP_ATOMIC_WRITE;
}

/* Context of these three: any. */
enum av_service av_service_of(uint32_t type);

/* Do its packets get answers? */
static inline bool av_service_is_reliable(uint32_t type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}

/* In bytes, of enum ibv_mtu; a peer's segment may say anything. */
uint32_t av_mtu_bytes(uint32_t mtu);

/**
 * av_request_message() - a request as a message
 * @head: its header
 * @operands: of a request that has them; else NULL
 * @psn: of its first packet
 */
struct av_wire_message av_request_message(const struct av_qp_end *req, const struct av_sq_wqe *head,
					  const struct av_packet_kind *kind,
					  const struct av_atomic *operands, uint32_t psn);

/* What a datagram has in addition: its own destination, and the path MTU of the port. */
void av_datagram_message(const struct av_qp_end *req, const struct av_sq_wqe *head,
			 struct av_wire_message *m);

/*
 * An answer from @rsp to queue pair @qpn, without payload. @type, @mtu (enum ibv_mtu): of the
 * connection. Context: @rsp's right @resp is held
 */
struct av_wire_message av_answer_message(const struct av_qp_shared *rsp, uint32_t type,
					 uint32_t mtu, uint32_t qpn);

#endif
