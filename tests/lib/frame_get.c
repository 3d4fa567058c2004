/* SPDX-License-Identifier: MIT */
#include "lib/frame_get.h"

#include <string.h>

#define TYPE_IPV4     0x0800
#define TYPE_IPV6     0x86dd
#define IPV4_BYTES    20
#define IPV6_BYTES    40
#define UDP_BYTES     8
#define BTH_BYTES     12
#define PROTOCOL_UDP  17
#define FRAGMENT_MASK 0xbfff /* "more fragments" and the fragment offset */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
static const uint8_t mapped_group[12] = {0xff, 0x0e, [10] = 0xff, [11] = 0xff};

/* Ones' complement sum of an IPv4 header, RFC 1071. Return: is its checksum right? */
static bool is_sum_right(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < IPV4_BYTES; i += 2)
		sum += av_get16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return ((sum & 0xffff) + (sum >> 16)) == 0xffff;
}

static void get_ethernet(struct av_frame *f, const uint8_t *from)
{
	memset(f, 0, sizeof(*f));
	memcpy(f->eth_dst, from, 6);
	memcpy(f->eth_src, from + 6, 6);
}

static void get_address4(uint8_t *gid, const uint8_t *from)
{
	memcpy(gid, from[0] >> 4 == 0xe ? mapped_group : mapped, 12);
	memcpy(gid + 12, from, 4);
}

/* @bytes: in: available; out: length of the IP packet. */
static enum frame_error get_ipv4(struct av_net_path *p, const uint8_t *ip, size_t *bytes)
{
	size_t all = *bytes;

	if (all < IPV4_BYTES)
		return FRAME_SHORT;
	*bytes = av_get16(ip + 2);
	if (ip[0] != 0x45 || !is_sum_right(ip) || *bytes < IPV4_BYTES)
		return FRAME_HEADER;
	if (*bytes > all)
		return FRAME_SHORT;
	if (ip[9] != PROTOCOL_UDP)
		return FRAME_FOREIGN;
	if (av_get16(ip + 6) & FRAGMENT_MASK)
		return FRAME_HEADER;
	p->traffic_class = ip[1];
	p->identification = av_get16(ip + 4);
	p->hop_limit = ip[8];
	get_address4(p->src, ip + 12);
	get_address4(p->dst, ip + 16);
	return FRAME_OK;
}

static enum frame_error get_ipv6(struct av_net_path *p, const uint8_t *ip, size_t *bytes)
{
	size_t all = *bytes;

	if (all < IPV6_BYTES)
		return FRAME_SHORT;
	if (ip[0] >> 4 != 6)
		return FRAME_HEADER;
	*bytes = IPV6_BYTES + (size_t)av_get16(ip + 4);
	if (*bytes > all)
		return FRAME_SHORT;
	if (ip[6] != PROTOCOL_UDP)
		return FRAME_FOREIGN;
	p->traffic_class = (uint8_t)(av_get16(ip) >> 4);
	p->flow_label = av_get24(ip + 1) & 0xfffff;
	p->hop_limit = ip[7];
	memcpy(p->src, ip + 8, 16);
	memcpy(p->dst, ip + 24, 16);
	/* IPv4 addresses in their mapped form never travel in an IPv6 header (RFC 4038, 4.2). */
	return (av_frame_gid_is_ipv4(p->src) && av_frame_gid_is_ipv4(p->dst)) ? FRAME_HEADER
									      : FRAME_OK;
}

/* @bytes: from the UDP header to the end of the IP packet. */
static enum frame_error get_udp(struct av_net_path *p, const uint8_t *udp, size_t bytes)
{
	if (bytes < UDP_BYTES)
		return FRAME_HEADER;
	if (av_get16(udp + 2) != AV_ROCE_PORT)
		return FRAME_FOREIGN;
	if (av_get16(udp + 4) != bytes || bytes < UDP_BYTES + BTH_BYTES + AV_ICRC_BYTES)
		return FRAME_HEADER;
	p->source_port = av_get16(udp);
	return FRAME_OK;
}

enum frame_error frame_get(struct av_frame *f, struct av_packet *p, const uint8_t *from,
			   size_t bytes)
{
	const uint8_t *ip = from + AV_ETH_BYTES, *udp, *packet;
	enum frame_error fault = FRAME_FOREIGN;

	if (bytes < AV_ETH_BYTES)
		return FRAME_SHORT;
	get_ethernet(f, from);
	bytes -= AV_ETH_BYTES;
	if (av_get16(from + 12) == TYPE_IPV4)
		fault = get_ipv4(&f->path, ip, &bytes);
	else if (av_get16(from + 12) == TYPE_IPV6)
		fault = get_ipv6(&f->path, ip, &bytes);
	if (fault != FRAME_OK)
		return fault;
	udp = ip + (ip[0] >> 4 == 4 ? IPV4_BYTES : IPV6_BYTES);
	fault = get_udp(&f->path, udp, bytes - (size_t)(udp - ip));
	if (fault != FRAME_OK)
		return fault;
	packet = udp + UDP_BYTES;
	bytes -= (size_t)(packet - ip) + AV_ICRC_BYTES;
	if (av_icrc(ip, packet, bytes) != av_icrc_get(packet + bytes))
		return FRAME_CRC;
	return av_packet_get(p, packet, bytes) == AV_PACKET_OK ? FRAME_OK : FRAME_PACKET;
}
