/* SPDX-License-Identifier: MIT */
/*
 * The 40 bytes in front of a datagram's payload in the receive buffer: the global route header, or with
 * RoCEv2 over IPv4, 20 bytes of nothing and the IPv4 header. Pure functions. IBTA volume 1, 8.3, and annex
 * A17.
 */
#ifndef AV_TRANSPORT_GRH_H
#define AV_TRANSPORT_GRH_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"

#define AV_GRH_BYTES 40

struct av_grh_fields {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint32_t payload; /* bytes of the message */
	bool immediate;	  /* it carries immediate data */
	bool infiniband;  /* the link layer: next header "IBA" instead of UDP */
};

/* Write the 40 bytes. */
void av_grh_write(uint8_t to[AV_GRH_BYTES], const struct av_grh_fields *fields);

/* Read them back (payload, immediate and infiniband are not). Return: false if they are neither form. */
AV_MUST_USE bool av_grh_read(const uint8_t from[AV_GRH_BYTES], struct av_grh_fields *fields);

#endif
