/* SPDX-License-Identifier: MIT */
/* Reading and writing the header area of a datagram. */
#include "transport/grh.h"

#include <string.h>

#define IPV4_AT	      20 /* where the IPv4 header lies in the 40 bytes */
#define IPV4_BYTES    20
#define UDP_BYTES     8
#define BTH_DETH      20
#define IMM_BYTES     4
#define ICRC_BYTES    4
#define PROTOCOL_UDP  17
#define NEXT_IBA      0x1b
#define DONT_FRAGMENT 0x40

static void put16(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 8);
	to[1] = (uint8_t)v;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t multicast[12] = {0xff, 0x0e, [10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, mapped, 12) == 0 || memcmp(gid->raw, multicast, 12) == 0;
}

/* Ones' complement sum over the header, RFC 791. 0: its checksum is correct */
static uint16_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Bytes from BTH to ICRC, with padding to a multiple of four. */
static uint32_t transport_bytes(const struct av_grh_fields *f)
{
	return BTH_DETH + (f->immediate ? IMM_BYTES : 0) + ((f->payload + 3) & ~3u) + ICRC_BYTES;
}

static void write_ipv4(uint8_t *to, const struct av_grh_fields *f)
{
	to[0] = 0x45;
	to[1] = f->traffic_class;
	put16(to + 2, IPV4_BYTES + UDP_BYTES + transport_bytes(f));
	to[6] = DONT_FRAGMENT;
	to[8] = f->hop_limit;
	to[9] = PROTOCOL_UDP;
	memcpy(to + 12, f->sgid.raw + 12, 4);
	memcpy(to + 16, f->dgid.raw + 12, 4);
	put16(to + 10, checksum(to));
}

enum av_packet_type av_grh_packet_type(const struct av_grh_fields *f)
{
	if (f->iba)
		return AV_PACKET_V1;
	return is_ipv4(&f->sgid) && is_ipv4(&f->dgid) ? AV_PACKET_V2_IPV4 : AV_PACKET_V2_IPV6;
}

void av_grh_write(uint8_t to[AV_GRH_BYTES], const struct av_grh_fields *f)
{
	memset(to, 0, AV_GRH_BYTES);
	if (av_grh_packet_type(f) == AV_PACKET_V2_IPV4) {
		write_ipv4(to + IPV4_AT, f);
		return;
	}
	to[0] = (uint8_t)(0x60 | f->traffic_class >> 4);
	to[1] = (uint8_t)(f->traffic_class << 4 | (f->flow_label >> 16 & 15));
	put16(to + 2, f->flow_label & 0xffff);
	put16(to + 4, transport_bytes(f) + (f->iba ? 0 : UDP_BYTES));
	to[6] = f->iba ? NEXT_IBA : PROTOCOL_UDP;
	to[7] = f->hop_limit;
	memcpy(to + 8, f->sgid.raw, 16);
	memcpy(to + 24, f->dgid.raw, 16);
}

static void map_ipv4(union ibv_gid *gid, const uint8_t *address)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, address, 4);
}

bool av_grh_read(const uint8_t from[AV_GRH_BYTES], struct av_grh_fields *f)
{
	const uint8_t *ip = from + IPV4_AT;

	memset(f, 0, sizeof(*f));
	if (ip[0] == 0x45 && checksum(ip) == 0) {
		f->traffic_class = ip[1];
		f->hop_limit = ip[8];
		map_ipv4(&f->sgid, ip + 12);
		map_ipv4(&f->dgid, ip + 16);
		return true;
	}
	if (from[0] >> 4 != 6)
		return false;
	f->traffic_class = (uint8_t)(from[0] << 4 | from[1] >> 4);
	f->flow_label = (uint32_t)(from[1] & 15) << 16 | (uint32_t)from[2] << 8 | from[3];
	f->iba = from[6] == NEXT_IBA;
	f->hop_limit = from[7];
	memcpy(f->sgid.raw, from + 8, 16);
	memcpy(f->dgid.raw, from + 24, 16);
	return true;
}
