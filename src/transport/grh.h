/* SPDX-License-Identifier: MIT */
/*
 * The 40 bytes in front of a datagram's payload in the receive buffer. They hold the global route
 * header or, with RoCEv2 over IPv4, 20 undefined bytes and the IPv4 header. Pure functions.
 * Source: IBTA volume 1, 8.3, and annex A17.
 */
#ifndef AV_TRANSPORT_GRH_H
#define AV_TRANSPORT_GRH_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"

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

#endif
