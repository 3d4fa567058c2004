/* SPDX-License-Identifier: MIT */
/* CM messages and the RDMA IP CM service's private data, as structures and bytes. All pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/*
 * The datagrams between queue pairs 1 by which two ends agree on a connection. Source: IBTA volume
 * 1, 12.6 and 12.7.1 (messages and their fields), 13.4.2 (the header of every management datagram);
 * annex A11 (IP addresses in private data); annex A17 (RoCEv2: GIDs count, LIDs do not).
 */

#define AV_MAD_BYTES	  256
#define AV_CM_PRIVATE_MAX 224
#define AV_CM_INFO_BYTES  72
#define AV_CM_QKEY	  0x80010000u /* of queue pair 1 */

enum av_cm_attribute {
	AV_CM_REQ = 0x10,
	AV_CM_MRA = 0x11,
	AV_CM_REJ = 0x12,
	AV_CM_REP = 0x13,
	AV_CM_RTU = 0x14,
	AV_CM_DREQ = 0x15,
	AV_CM_DREP = 0x16,
	AV_CM_SIDR_REQ = 0x17,
	AV_CM_SIDR_REP = 0x18,
	AV_CM_LAP = 0x19,
	AV_CM_APR = 0x1a,
};

/* "Local" is the side that sends the REQ or LAP. */
struct av_cm_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t rate;	     /* 6 bits */
	uint8_t traffic_class, hop_limit;
	uint8_t sl; /* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout; /* 5 bits: 4.096 us << ack_timeout */
};

/*
 * In host byte order. Writing ignores fields that the attribute lacks, and cuts off bits beyond a
 * field's width. Reading sets fields that the attribute lacks to 0.
 */
struct av_cm_message {
	uint16_t attribute; /* enum av_cm_attribute */
	uint64_t transaction;
	uint32_t attr_mod; /* with vendor_id: options of enhanced connection establishment */

	/* The sender's own id, its peer's. SIDR_REQ, SIDR_REP: only local_comm_id, the request's */
	uint32_t local_comm_id, remote_comm_id;

	uint64_t service_id;  /* REQ, SIDR_REQ, SIDR_REP */
	uint64_t ca_guid;     /* REQ, REP */
	uint32_t qkey;	      /* REQ, REP, SIDR_REP */
	uint32_t qpn;	      /* 24 bits; REQ, REP, SIDR_REP: the sender's; DREQ, LAP: its peer's */
	uint32_t eecn;	      /* 24 bits; REQ, REP: the sender's */
	uint32_t remote_eecn; /* 24 bits; REQ */
	uint32_t psn;	      /* 24 bits; REQ, REP: of the first packet to the sender */
	uint32_t vendor_id;   /* 24 bits; REQ, REP, SIDR_REP: in bits that IBTA reserves */

	uint8_t responder_resources, initiator_depth; /* REQ, REP */
	bool flow_control, srq;			      /* REQ, REP */
	uint8_t rnr_retry_count;		      /* 3 bits; REQ, REP */

	uint8_t transport;     /* 2 bits; REQ: 0 RC, 1 UC, 2 RD, 3 as ext_transport says */
	uint8_t ext_transport; /* 3 bits; REQ: 1 XRC */
	uint8_t retry_count;   /* 3 bits; REQ */
	uint16_t pkey;	       /* REQ, SIDR_REQ */
	uint8_t path_mtu;      /* 4 bits; REQ: as enum ibv_mtu */
	bool rdc_exists;       /* REQ */
	bool sap_supported;    /* REQ: suggested alternate paths */
	/* 5 bits each: 4.096 us << value, until a CM answers. REQ: both, LAP: remote_timeout */
	uint8_t local_timeout, remote_timeout;
	uint8_t max_cm_retries;		      /* 4 bits; REQ */
	struct av_cm_path primary, alternate; /* REQ; LAP: alternate */

	uint8_t target_ack_delay;  /* 5 bits; REP */
	uint8_t failover_accepted; /* 2 bits; REP */

	uint8_t message_rejected; /* 2 bits; REJ: 0 REQ, 1 REP, 2 another */
	uint16_t reason;	  /* REJ: 12.6.7.2 */

	uint8_t message_mraed;	 /* 2 bits; MRA: 0 REQ, 1 REP, 2 LAP */
	uint8_t service_timeout; /* 5 bits; MRA: 4.096 us << it */

	uint8_t status;	    /* SIDR_REP, APR */
	uint8_t info_bytes; /* REJ, SIDR_REP, APR; read: at most AV_CM_INFO_BYTES */
	uint8_t info[AV_CM_INFO_BYTES];

	uint8_t private_data[AV_CM_PRIVATE_MAX];
};

/* How many bytes of private data a message with this attribute has; 0: unknown attribute. */
size_t av_cm_private_bytes(uint16_t attribute);

/* The name of an attribute, such as "REQ"; NULL: unknown attribute. */
const char *av_cm_attribute_name(uint16_t attribute);

/* Encode. Reserved bytes are 0. Return: false: unknown attribute, and nothing is written */
AV_MUST_USE bool av_cm_put(const struct av_cm_message *m, uint8_t to[AV_MAD_BYTES]);

/*
 * Decode. @m: out, valid only if the result is true. @bytes: any number; a message has AV_MAD_BYTES
 * Return: false: its length, version, class, method or attribute is not that of a CM message
 */
AV_MUST_USE bool av_cm_get(struct av_cm_message *m, const uint8_t *from, size_t bytes);

/* --- the RDMA IP CM service: annex A11 ------------------------------------------- */

#define AV_CM_IP_BYTES 36

/* Who connects to whom. The private data of a REQ or SIDR_REQ begins with this. */
struct av_cm_ip {
	bool v6;
	uint16_t src_port;
	uint8_t src[16], dst[16]; /* IPv4 as ::ffff:a.b.c.d */
};

/* Encode. @to: room for AV_CM_IP_BYTES */
void av_cm_ip_put(const struct av_cm_ip *ip, uint8_t *to);

/* Decode. @from: AV_CM_IP_BYTES. Return: false: an unknown version of the header or of IP */
AV_MUST_USE bool av_cm_ip_get(struct av_cm_ip *ip, const uint8_t *from);

/* The service id of a port. @ps: enum rdma_port_space */
static inline uint64_t av_cm_service_id(uint16_t ps, uint16_t port)
{
	return 0x01000000u | (uint64_t)ps << 16 | port;
}

static inline uint16_t av_cm_service_ps(uint64_t service_id)
{
	return (uint16_t)(service_id >> 16);
}

static inline uint16_t av_cm_service_port(uint64_t service_id)
{
	return (uint16_t)service_id;
}

/*
 * The kind of queue pair (enum ibv_qp_type) in messages. Pure functions. Sources: IBTA volume 1,
 * 12.7.11 and annex A14 (XRC); Linux, drivers/infiniband/core/cm.c.
 */

#define AV_CM_ANY_KIND 0 /* a listener in RDMA_PS_IB that accepts all kinds */

/* Write the kind of the requester's queue pair into a REQ. */
void av_cm_kind_put(struct av_cm_message *m, uint8_t qp_type);

/* The kind of listener that takes this REQ or SIDR_REQ. AV_CM_ANY_KIND: none does */
uint8_t av_cm_kind_wanted(const struct av_cm_message *m);

/* The responder's queue pair number in a REP. @asking: the requester's kind; @qp_type: its own */
uint32_t av_cm_kind_qpn(const struct av_cm_message *m, uint8_t asking);
void av_cm_kind_put_qpn(struct av_cm_message *m, uint8_t qp_type, uint32_t qpn);
