/* SPDX-License-Identifier: MIT */
#include "wire/cm_message.h"

#include <string.h>

#include "wire/packet.h"

#define BITS(byte, bit, bits, member) \
	AV_WIRE_FIELD(struct av_cm_message, byte, bit, bits, member, 0)
#define PART(byte, bits, member, shift) \
	AV_WIRE_FIELD(struct av_cm_message, byte, 0, bits, member, shift)
#define BYTES(byte, member) BITS(byte, 0, 8 * sizeof(((struct av_cm_message *)0)->member), member)
#define IDS		    BYTES(0, local_comm_id), BYTES(4, remote_comm_id)
/* NOLINTBEGIN(bugprone-macro-parentheses): the name of a member takes none */
#define ADDRESSES(at, path)                                                         \
	BYTES(at, path.local_lid), BYTES((at) + 2, path.remote_lid),                \
		BYTES((at) + 4, path.local_gid), BYTES((at) + 20, path.remote_gid), \
		BITS((at) + 36, 0, 20, path.flow_label)
#define PATH(at, path)                                                                    \
	ADDRESSES(at, path), BITS((at) + 39, 2, 6, path.rate),                            \
		BYTES((at) + 40, path.traffic_class), BYTES((at) + 41, path.hop_limit),   \
		BITS((at) + 42, 0, 4, path.sl), BITS((at) + 42, 4, 1, path.subnet_local), \
		BITS((at) + 43, 0, 5, path.ack_timeout)
/* NOLINTEND(bugprone-macro-parentheses) */

static const struct av_wire_field req[] = {
	BYTES(0, local_comm_id),
	BITS(5, 0, 24, vendor_id),
	BYTES(8, service_id),
	BYTES(16, ca_guid),
	BYTES(28, qkey),
	BITS(32, 0, 24, qpn),
	BYTES(35, responder_resources),
	BITS(36, 0, 24, eecn),
	BYTES(39, initiator_depth),
	BITS(40, 0, 24, remote_eecn),
	BITS(43, 0, 5, remote_timeout),
	BITS(43, 5, 2, transport),
	BITS(43, 7, 1, flow_control),
	BITS(44, 0, 24, psn),
	BITS(47, 0, 5, local_timeout),
	BITS(47, 5, 3, retry_count),
	BYTES(48, pkey),
	BITS(50, 0, 4, path_mtu),
	BITS(50, 4, 1, rdc_exists),
	BITS(50, 5, 3, rnr_retry_count),
	BITS(51, 0, 4, max_cm_retries),
	BITS(51, 4, 1, srq),
	BITS(51, 5, 3, ext_transport),
	PATH(52, primary),
	PATH(96, alternate),
	BITS(139, 5, 1, sap_supported),
};

static const struct av_wire_field mra[] = {
	IDS,
	BITS(8, 0, 2, message_mraed),
	BITS(9, 0, 5, service_timeout),
};

static const struct av_wire_field rej[] = {
	IDS,
	BITS(8, 0, 2, message_rejected),
	BITS(9, 0, 7, info_bytes),
	BYTES(10, reason),
	BYTES(12, info),
};

static const struct av_wire_field rep[] = {
	IDS,
	BYTES(8, qkey),
	BITS(12, 0, 24, qpn),
	PART(15, 8, vendor_id, 16),
	BITS(16, 0, 24, eecn),
	PART(19, 8, vendor_id, 8),
	BITS(20, 0, 24, psn),
	PART(23, 8, vendor_id, 0),
	BYTES(24, responder_resources),
	BYTES(25, initiator_depth),
	BITS(26, 0, 5, target_ack_delay),
	BITS(26, 5, 2, failover_accepted),
	BITS(26, 7, 1, flow_control),
	BITS(27, 0, 3, rnr_retry_count),
	BITS(27, 3, 1, srq),
	BYTES(28, ca_guid),
};

/* RTU and DREP */
static const struct av_wire_field ids[] = {
	IDS,
};

static const struct av_wire_field dreq[] = {
	IDS,
	BITS(8, 0, 24, qpn),
};

static const struct av_wire_field sidr_req[] = {
	BYTES(0, local_comm_id),
	BYTES(4, pkey),
	BYTES(8, service_id),
};

static const struct av_wire_field sidr_rep[] = {
	BYTES(0, local_comm_id),   BYTES(4, status),	BYTES(5, info_bytes),
	PART(6, 16, vendor_id, 8), BITS(8, 0, 24, qpn), PART(11, 8, vendor_id, 0),
	BYTES(12, service_id),	   BYTES(20, qkey),	BYTES(24, info),
};

static const struct av_wire_field lap[] = {
	IDS,
	BITS(12, 0, 24, qpn),
	BITS(15, 0, 5, remote_timeout),
	ADDRESSES(20, alternate),
	BYTES(59, alternate.traffic_class),
	BYTES(60, alternate.hop_limit),
	BITS(61, 2, 6, alternate.rate),
	BITS(62, 0, 4, alternate.sl),
	BITS(62, 4, 1, alternate.subnet_local),
	BITS(63, 0, 5, alternate.ack_timeout),
};

static const struct av_wire_field apr[] = {
	IDS,
	BYTES(8, info_bytes),
	BYTES(9, status),
	BYTES(12, info),
};

/* Places of fields: IBTA volume 1, 12.6; enhanced connection establishment: as in Linux. */
struct cm_kind {
	const char *name;
	const struct av_wire_field *field; /* without the private data */
	uint8_t fields;
	uint8_t private_at; /* byte at which the private data begins; it fills the rest */
};

#define MESSAGE(fields, private_at) fields, AV_ARRAY_SIZE(fields), private_at

/* In the order of the attributes, from AV_CM_REQ on. */
static const struct cm_kind kinds[] = {
	{"REQ", MESSAGE(req, 140)},
	{"MRA", MESSAGE(mra, 10)},
	{"REJ", MESSAGE(rej, 84)},
	{"REP", MESSAGE(rep, 36)},
	{"RTU", MESSAGE(ids, 8)},
	{"DREQ", MESSAGE(dreq, 12)},
	{"DREP", MESSAGE(ids, 8)},
	{"SIDR_REQ", MESSAGE(sidr_req, 16)},
	{"SIDR_REP", MESSAGE(sidr_rep, 96)},
	{"LAP", MESSAGE(lap, 64)},
	{"APR", MESSAGE(apr, 84)},
};

/* NULL: unknown attribute. */
static const struct cm_kind *cm_find_kind(uint16_t attribute)
{
	size_t i = (size_t)attribute - AV_CM_REQ;

	return i < AV_ARRAY_SIZE(kinds) ? &kinds[i] : NULL;
}

/* Who connects to whom, in the private data of a message. Source: IBTA volume 1, annex A11. */

#define VERSION	    0 /* major and minor */
#define IP_SHIFT    4
#define PORT_AT	    2
#define SRC_AT	    4
#define DST_AT	    20
#define IPV4_OFFSET 12 /* of an IPv4 address in the room for an IPv6 one, and in a mapped one */

static const uint8_t zeros[IPV4_OFFSET], mapped[IPV4_OFFSET] = {[10] = 0xff, [11] = 0xff};

/* @before: what is before an IPv4 address there */
static void copy_address(bool v6, const uint8_t before[IPV4_OFFSET], uint8_t *to,
			 const uint8_t *from)
{
	memcpy(to, from, 16);
	if (!v6)
		memcpy(to, before, IPV4_OFFSET);
}

void av_cm_ip_put(const struct av_cm_ip *ip, uint8_t *to)
{
	to[0] = VERSION;
	to[1] = (uint8_t)((ip->v6 ? 6 : 4) << IP_SHIFT);
	av_put16(to + PORT_AT, ip->src_port);
	copy_address(ip->v6, zeros, to + SRC_AT, ip->src);
	copy_address(ip->v6, zeros, to + DST_AT, ip->dst);
}

bool av_cm_ip_get(struct av_cm_ip *ip, const uint8_t *from)
{
	unsigned int version = from[1] >> IP_SHIFT;

	if (from[0] != VERSION || (version != 4 && version != 6))
		return false;
	memset(ip, 0, sizeof(*ip));
	ip->v6 = version == 6;
	ip->src_port = av_get16(from + PORT_AT);
	copy_address(ip->v6, mapped, ip->src, from + SRC_AT);
	copy_address(ip->v6, mapped, ip->dst, from + DST_AT);
	return true;
}

#define HEADER_BYTES  24
#define MESSAGE_BYTES (AV_MAD_BYTES - HEADER_BYTES)

/* The header of a management datagram. */
#define BASE_VERSION  1
#define CLASS_CM      0x07
#define CLASS_VERSION 2
#define METHOD_SEND   0x03

static const struct av_wire_field header[] = {
	BYTES(8, transaction),
	BYTES(16, attribute),
	BYTES(20, attr_mod),
};

size_t av_cm_private_bytes(uint16_t attribute)
{
	const struct cm_kind *kind = cm_find_kind(attribute);

	return kind ? (size_t)MESSAGE_BYTES - kind->private_at : 0;
}

const char *av_cm_attribute_name(uint16_t attribute)
{
	const struct cm_kind *kind = cm_find_kind(attribute);

	return kind ? kind->name : NULL;
}

bool av_cm_put(const struct av_cm_message *m, uint8_t to[AV_MAD_BYTES])
{
	const struct cm_kind *kind = cm_find_kind(m->attribute);
	uint8_t *message = to + HEADER_BYTES;

	if (!kind)
		return false;
	memset(to, 0, AV_MAD_BYTES);
	to[0] = BASE_VERSION;
	to[1] = CLASS_CM;
	to[2] = CLASS_VERSION;
	to[3] = METHOD_SEND;
	av_wire_fields_put(header, AV_ARRAY_SIZE(header), m, to);
	av_wire_fields_put(kind->field, kind->fields, m, message);
	memcpy(message + kind->private_at, m->private_data,
	       (size_t)MESSAGE_BYTES - kind->private_at);
	return true;
}

bool av_cm_get(struct av_cm_message *m, const uint8_t *from, size_t bytes)
{
	const uint8_t *message = from + HEADER_BYTES;
	const struct cm_kind *kind;

	if (bytes != AV_MAD_BYTES || from[0] != BASE_VERSION || from[1] != CLASS_CM ||
	    from[2] != CLASS_VERSION || from[3] != METHOD_SEND)
		return false;
	memset(m, 0, sizeof(*m));
	av_wire_fields_get(header, AV_ARRAY_SIZE(header), m, from);
	kind = cm_find_kind(m->attribute);
	if (!kind)
		return false;
	av_wire_fields_get(kind->field, kind->fields, m, message);
	if (m->info_bytes > AV_CM_INFO_BYTES)
		m->info_bytes = AV_CM_INFO_BYTES;
	memcpy(m->private_data, message + kind->private_at,
	       (size_t)MESSAGE_BYTES - kind->private_at);
	return true;
}

/* Fields @transport and @ext_transport of a REQ. */
enum { RC, UC, EXTENDED = 3, EXTENDED_XRC = 1 };

void av_cm_kind_put(struct av_cm_message *m, uint8_t qp_type)
{
	m->transport = qp_type == IBV_QPT_UC ? UC : qp_type == IBV_QPT_XRC_SEND ? EXTENDED : RC;
	m->ext_transport = qp_type == IBV_QPT_XRC_SEND ? EXTENDED_XRC : 0;
}

uint8_t av_cm_kind_wanted(const struct av_cm_message *m)
{
	if (m->attribute == AV_CM_SIDR_REQ)
		return IBV_QPT_UD;
	if (m->transport == RC)
		return IBV_QPT_RC;
	if (m->transport == UC)
		return IBV_QPT_UC;
	return m->transport == EXTENDED && m->ext_transport == EXTENDED_XRC ? IBV_QPT_XRC_RECV
									    : AV_CM_ANY_KIND;
}

/* An XRC target's is in the place of an EE context. */
uint32_t av_cm_kind_qpn(const struct av_cm_message *m, uint8_t asking)
{
	return asking == IBV_QPT_XRC_SEND ? m->eecn : m->qpn;
}

void av_cm_kind_put_qpn(struct av_cm_message *m, uint8_t qp_type, uint32_t qpn)
{
	if (qp_type == IBV_QPT_XRC_RECV) {
		m->eecn = qpn;
		m->srq = true;
	} else {
		m->qpn = qpn;
	}
}
