/* SPDX-License-Identifier: MIT */
/*
 * Requests and answers as messages of RoCEv2 packets, for captures and for the wire. Functions read
 * the requester's queue pair and change nothing. Context: its right @exec is held, unless noted.
 */
#ifndef AV_TRANSPORT_TO_PACKETS_H
#define AV_TRANSPORT_TO_PACKETS_H

#include <stdint.h>

#include "queue/qp.h"
#include "wire/packet.h"

/* Context of these three: any. */
enum av_service av_service_of(uint32_t type);

/* Do its packets get answers? */
static inline bool av_service_is_reliable(uint32_t type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}

/**
 * av_request_message() - a request as a message
 * @head: its header
 * @operands: of a request that has them; else NULL
 * @psn: of its first packet
 */
struct av_wire_message av_request_message(const struct av_qp_end *req, const struct av_sq_wqe *head,
					  const struct av_packet_kind *kind,
					  const struct av_atomic *operands, uint32_t psn);

/* The qkey that a datagram carries. Source: IBTA volume 1, 10.2.5 */
static inline uint32_t av_datagram_qkey(const struct av_qp_end *req, const struct av_sq_wqe *head)
{
	const uint32_t own = 0x80000000u;

	return head->ud.qkey & own ? req->qp->attr.qkey : head->ud.qkey;
}

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
