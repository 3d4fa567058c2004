/* SPDX-License-Identifier: MIT */
/* Datagrams: where they go, and what stands before their payload. */
#ifndef AV_TRANSPORT_DATAGRAM_H
#define AV_TRANSPORT_DATAGRAM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "transport/execute.h"

/*
 * The 40 bytes in front of a datagram's payload in the receive buffer. They hold the global route
 * header or, with RoCEv2 over IPv4, 20 undefined bytes and the IPv4 header. Pure functions.
 * Source: IBTA volume 1, 8.3, and annex A17.
 */

#define AV_GRH_BYTES 40

/*
 * The kind of header in front of the payload, as the completion says it. The 40 bytes cannot say it
 * themselves: 20 of the IPv4 form are undefined (annex A17.4.5.1). Verbs have no field for it, so
 * adapters use the service level, which Ethernet frames do not have. In mlx5, bits 0 to 2 say the
 * layer 3 header, and bit 3 says that UDP follows.
 */
enum av_packet_type { AV_PACKET_V1 = 0, AV_PACKET_V2_IPV6 = 9, AV_PACKET_V2_IPV4 = 10 };

struct av_grh_fields {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint32_t payload; /* bytes of the message */
	bool immediate;	  /* it carries immediate data */
	bool iba;	  /* next header "IBA" instead of UDP: InfiniBand, RoCE v1 */
};

/* The form av_grh_write() gives the 40 bytes on Ethernet. */
enum av_packet_type av_grh_packet_type(const struct av_grh_fields *fields);

/* Write the 40 bytes. */
void av_grh_write(uint8_t to[AV_GRH_BYTES], const struct av_grh_fields *fields);

/*
 * Read them back, without payload and immediate.
 * Return:  false if they have neither form
 */
AV_MUST_USE bool av_grh_read(const uint8_t from[AV_GRH_BYTES], struct av_grh_fields *fields);

/*
 * The unreliable datagram service. Each request names its destination: one queue pair or a
 * multicast group.
 */

/**
 * av_datagram_execute() - execute one request of a UD queue pair
 * @peer: where the last datagram went, guarded by @req's @exec right; holds a use of its segment
 *
 * As av_execute(), except that the request names the destination, and that it never waits for a
 * receiver: a message that cannot be received is lost. It waits (AV_WAIT_FULL) while the interface
 * has no room.
 */
struct av_outcome av_datagram_execute(const struct av_qp_ref *req, struct av_qp_ref *peer,
				      const struct av_sq_wqe *wqe, struct av_after *after);

/* Does a request leave this host? A group's may have members on others, too. Context: any */
bool av_datagram_leaves(const struct av_qp_ref *req, const struct av_sq_wqe *head);

struct av_net_packet;

/*
 * A datagram has come as a packet, for a queue pair of this process or a group. @struck: rules of
 * faults have been asked about it. Context: within the receiver; no right held
 */
void av_datagram_arrived(const struct av_net_packet *packet, bool struck);

#endif
