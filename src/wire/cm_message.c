/* SPDX-License-Identifier: MIT */
#include "wire/cm_message.h"

#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "wire/packet.h"

#define MEMBER(member) \
	offsetof(struct av_cm_message, member), sizeof(((struct av_cm_message *)0)->member)
#define BITS(byte, bit, bits, member)              \
	{                                          \
		byte, bit, bits, MEMBER(member), 0 \
	}
#define PART(byte, bits, member, shift)              \
	{                                            \
		byte, 0, bits, MEMBER(member), shift \
	}
#define BYTES(byte, member)                                                                 \
	{                                                                                   \
		byte, 0, 8 * sizeof(((struct av_cm_message *)0)->member), MEMBER(member), 0 \
	}

static const struct av_cm_field req[] = {
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
	BYTES(52, primary.local_lid),
	BYTES(54, primary.remote_lid),
	BYTES(56, primary.local_gid),
	BYTES(72, primary.remote_gid),
	BITS(88, 0, 20, primary.flow_label),
	BITS(91, 2, 6, primary.rate),
	BYTES(92, primary.traffic_class),
	BYTES(93, primary.hop_limit),
	BITS(94, 0, 4, primary.sl),
	BITS(94, 4, 1, primary.subnet_local),
	BITS(95, 0, 5, primary.ack_timeout),
	BYTES(96, alternate.local_lid),
	BYTES(98, alternate.remote_lid),
	BYTES(100, alternate.local_gid),
	BYTES(116, alternate.remote_gid),
	BITS(132, 0, 20, alternate.flow_label),
	BITS(135, 2, 6, alternate.rate),
	BYTES(136, alternate.traffic_class),
	BYTES(137, alternate.hop_limit),
	BITS(138, 0, 4, alternate.sl),
	BITS(138, 4, 1, alternate.subnet_local),
	BITS(139, 0, 5, alternate.ack_timeout),
	BITS(139, 5, 1, sap_supported),
};

static const struct av_cm_field mra[] = {
	BYTES(0, local_comm_id),
	BYTES(4, remote_comm_id),
	BITS(8, 0, 2, message_mraed),
	BITS(9, 0, 5, service_timeout),
};

static const struct av_cm_field rej[] = {
	BYTES(0, local_comm_id),   BYTES(4, remote_comm_id), BITS(8, 0, 2, message_rejected),
	BITS(9, 0, 7, info_bytes), BYTES(10, reason),	     BYTES(12, info),
};

static const struct av_cm_field rep[] = {
	BYTES(0, local_comm_id),
	BYTES(4, remote_comm_id),
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
static const struct av_cm_field ids[] = {
	BYTES(0, local_comm_id),
	BYTES(4, remote_comm_id),
};

static const struct av_cm_field dreq[] = {
	BYTES(0, local_comm_id),
	BYTES(4, remote_comm_id),
	BITS(8, 0, 24, qpn),
};

static const struct av_cm_field sidr_req[] = {
	BYTES(0, local_comm_id),
	BYTES(4, pkey),
	BYTES(8, service_id),
};

static const struct av_cm_field sidr_rep[] = {
	BYTES(0, local_comm_id),   BYTES(4, status),	BYTES(5, info_bytes),
	PART(6, 16, vendor_id, 8), BITS(8, 0, 24, qpn), PART(11, 8, vendor_id, 0),
	BYTES(12, service_id),	   BYTES(20, qkey),	BYTES(24, info),
};

static const struct av_cm_field lap[] = {
	BYTES(0, local_comm_id),
	BYTES(4, remote_comm_id),
	BITS(12, 0, 24, qpn),
	BITS(15, 0, 5, remote_timeout),
	BYTES(20, alternate.local_lid),
	BYTES(22, alternate.remote_lid),
	BYTES(24, alternate.local_gid),
	BYTES(40, alternate.remote_gid),
	BITS(56, 0, 20, alternate.flow_label),
	BYTES(59, alternate.traffic_class),
	BYTES(60, alternate.hop_limit),
	BITS(61, 2, 6, alternate.rate),
	BITS(62, 0, 4, alternate.sl),
	BITS(62, 4, 1, alternate.subnet_local),
	BITS(63, 0, 5, alternate.ack_timeout),
};

static const struct av_cm_field apr[] = {
	BYTES(0, local_comm_id), BYTES(4, remote_comm_id), BYTES(8, info_bytes),
	BYTES(9, status),	 BYTES(12, info),
};

#define MESSAGE(fields, private_at) fields, AV_ARRAY_SIZE(fields), private_at

/* In the order of the attributes, from AV_CM_REQ on. */
static const struct av_cm_kind kinds[] = {
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
static const struct av_cm_kind *cm_find_kind(uint16_t attribute)
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

static void put_address(bool v6, const uint8_t address[16], uint8_t *to)
{
	size_t at = v6 ? 0 : IPV4_OFFSET;

	memset(to, 0, at);
	memcpy(to + at, address + at, 16 - at);
}

static void get_address(bool v6, uint8_t address[16], const uint8_t *from)
{
	size_t at = v6 ? 0 : IPV4_OFFSET;

	memset(address, 0, 16);
	if (!v6)
		memset(address + 10, 0xff, 2);
	memcpy(address + at, from + at, 16 - at);
}

void av_cm_ip_put(const struct av_cm_ip *ip, uint8_t *to)
{
	to[0] = VERSION;
	to[1] = (uint8_t)((ip->v6 ? 6 : 4) << IP_SHIFT);
	av_put16(to + PORT_AT, ip->src_port);
	put_address(ip->v6, ip->src, to + SRC_AT);
	put_address(ip->v6, ip->dst, to + DST_AT);
}

bool av_cm_ip_get(struct av_cm_ip *ip, const uint8_t *from)
{
	unsigned int version = from[1] >> IP_SHIFT;

	if (from[0] != VERSION || (version != 4 && version != 6))
		return false;
	memset(ip, 0, sizeof(*ip));
	ip->v6 = version == 6;
	ip->src_port = av_get16(from + PORT_AT);
	get_address(ip->v6, ip->src, from + SRC_AT);
	get_address(ip->v6, ip->dst, from + DST_AT);
	return true;
}

#define HEADER_BYTES  24
#define MESSAGE_BYTES (AV_MAD_BYTES - HEADER_BYTES)

/* The header of a management datagram. */
#define BASE_VERSION   1
#define CLASS_CM       0x07
#define CLASS_VERSION  2
#define METHOD_SEND    0x03
#define TRANSACTION_AT 8
#define ATTRIBUTE_AT   16
#define ATTR_MOD_AT    20

size_t av_cm_private_bytes(uint16_t attribute)
{
	const struct av_cm_kind *kind = cm_find_kind(attribute);

	return kind ? (size_t)MESSAGE_BYTES - kind->private_at : 0;
}

const char *av_cm_attribute_name(uint16_t attribute)
{
	const struct av_cm_kind *kind = cm_find_kind(attribute);

	return kind ? kind->name : NULL;
}

static bool is_array(const struct av_cm_field *f)
{
	return f->bits > 64;
}

static uint64_t load_member(const void *member, size_t bytes)
{
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch (bytes) {
	case 1:
		memcpy(&u8, member, 1);
		return u8;
	case 2:
		memcpy(&u16, member, 2);
		return u16;
	case 4:
		memcpy(&u32, member, 4);
		return u32;
	default:
		memcpy(&u64, member, 8);
		return u64;
	}
}

static void store_member(void *member, size_t bytes, uint64_t v)
{
	uint8_t u8 = (uint8_t)v;
	uint16_t u16 = (uint16_t)v;
	uint32_t u32 = (uint32_t)v;
	const void *const from[] = {[1] = &u8, [2] = &u16, [4] = &u32, [8] = &v};

	memcpy(member, from[bytes], bytes);
}

/* The bits are 0 before. */
static void put_bits(uint8_t *to, const struct av_cm_field *f, uint64_t v)
{
	for (unsigned int i = 0; i < f->bits; i++) {
		unsigned int at = f->bit + i;
		uint64_t bit = v >> (f->bits - 1 - i) & 1;

		to[f->byte + at / 8] |= (uint8_t)(bit << (7 - at % 8));
	}
}

static uint64_t get_bits(const uint8_t *from, const struct av_cm_field *f)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < f->bits; i++) {
		unsigned int at = f->bit + i;

		v = v << 1 | (from[f->byte + at / 8] >> (7 - at % 8) & 1);
	}
	return v;
}

static void put_field(const struct av_cm_message *m, const struct av_cm_field *f, uint8_t *to)
{
	const uint8_t *member = (const uint8_t *)m + f->member;

	if (is_array(f))
		memcpy(to + f->byte, member, f->member_bytes);
	else
		put_bits(to, f, load_member(member, f->member_bytes) >> f->shift);
}

static void get_field(struct av_cm_message *m, const struct av_cm_field *f, const uint8_t *from)
{
	uint8_t *member = (uint8_t *)m + f->member;

	if (is_array(f))
		memcpy(member, from + f->byte, f->member_bytes);
	else
		store_member(member, f->member_bytes,
			     load_member(member, f->member_bytes) | get_bits(from, f) << f->shift);
}

bool av_cm_put(const struct av_cm_message *m, uint8_t to[AV_MAD_BYTES])
{
	const struct av_cm_kind *kind = cm_find_kind(m->attribute);
	uint8_t *message = to + HEADER_BYTES;

	if (!kind)
		return false;
	memset(to, 0, AV_MAD_BYTES);
	to[0] = BASE_VERSION;
	to[1] = CLASS_CM;
	to[2] = CLASS_VERSION;
	to[3] = METHOD_SEND;
	av_put64(to + TRANSACTION_AT, m->transaction);
	av_put16(to + ATTRIBUTE_AT, m->attribute);
	av_put32(to + ATTR_MOD_AT, m->attr_mod);
	for (size_t i = 0; i < kind->fields; i++)
		put_field(m, &kind->field[i], message);
	memcpy(message + kind->private_at, m->private_data,
	       (size_t)MESSAGE_BYTES - kind->private_at);
	return true;
}

bool av_cm_get(struct av_cm_message *m, const uint8_t *from, size_t bytes)
{
	const uint8_t *message = from + HEADER_BYTES;
	const struct av_cm_kind *kind;

	if (bytes != AV_MAD_BYTES || from[0] != BASE_VERSION || from[1] != CLASS_CM ||
	    from[2] != CLASS_VERSION || from[3] != METHOD_SEND)
		return false;
	kind = cm_find_kind(av_get16(from + ATTRIBUTE_AT));
	if (!kind)
		return false;
	memset(m, 0, sizeof(*m));
	m->transaction = av_get64(from + TRANSACTION_AT);
	m->attribute = av_get16(from + ATTRIBUTE_AT);
	m->attr_mod = av_get32(from + ATTR_MOD_AT);
	for (size_t i = 0; i < kind->fields; i++)
		get_field(m, &kind->field[i], message);
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
	switch (m->transport) {
	case RC:
		return IBV_QPT_RC;
	case UC:
		return IBV_QPT_UC;
	case EXTENDED:
		return m->ext_transport == EXTENDED_XRC ? IBV_QPT_XRC_RECV : AV_CM_ANY_KIND;
	default:
		return AV_CM_ANY_KIND;
	}
}

/* An XRC target's is in the place of an EE context. */
uint32_t av_cm_kind_qpn(const struct av_cm_message *m, uint8_t asking)
{
	return asking == IBV_QPT_XRC_SEND ? m->eecn : m->qpn;
}

void av_cm_kind_put_qpn(struct av_cm_message *m, uint8_t qp_type, uint32_t qpn)
{
	if (qp_type != IBV_QPT_XRC_RECV) {
		m->qpn = qpn;
		return;
	}
	m->eecn = qpn;
	m->srq = true;
}
