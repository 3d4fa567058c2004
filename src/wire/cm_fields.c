/* SPDX-License-Identifier: MIT */
#include "wire/cm_fields.h"

#include <stddef.h>

#include "base/compiler.h"
#include "wire/cm_message.h"

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

const struct av_cm_kind *av_cm_find_kind(uint16_t attribute)
{
	size_t i = (size_t)attribute - AV_CM_REQ;

	return i < AV_ARRAY_SIZE(kinds) ? &kinds[i] : NULL;
}
