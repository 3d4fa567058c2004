/* SPDX-License-Identifier: MIT */
#include "wire/icrc.h"

#include <string.h>
#include <zlib.h>

#define LRH_BYTES  8 /* the link header that RoCE lacks; counts as ones */
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define UDP_BYTES  8
#define BTH_BYTES  12

/* Offsets of the header bytes that count as ones. */
static const uint8_t ipv4_mask[] = {
	1,	/* type of service */
	8,	/* time to live */
	10, 11, /* header checksum */
};
#define UDP_CHECKSUM 6
#define BTH_RESERVED 4 /* shares its byte with the congestion bits */

static void mask_ipv4(uint8_t *ip)
{
	for (size_t i = 0; i < sizeof(ipv4_mask); i++)
		ip[ipv4_mask[i]] = 0xff;
}

/* The first word holds traffic class and flow label, below the version. */
static void mask_ipv6(uint8_t *ip)
{
	ip[0] |= 0x0f;
	memset(ip + 1, 0xff, 3);
	ip[7] = 0xff; /* hop limit */
}

uint32_t av_icrc(const uint8_t *ip, size_t bytes)
{
	uint8_t head[LRH_BYTES + IPV6_BYTES + UDP_BYTES + BTH_BYTES], *masked = head + LRH_BYTES;
	size_t ip_bytes = ip[0] >> 4 == 4 ? IPV4_BYTES : IPV6_BYTES;
	size_t head_bytes = ip_bytes + UDP_BYTES + BTH_BYTES;
	uLong crc;

	memset(head, 0xff, LRH_BYTES);
	memcpy(masked, ip, head_bytes);
	if (ip_bytes == IPV4_BYTES)
		mask_ipv4(masked);
	else
		mask_ipv6(masked);
	memset(masked + ip_bytes + UDP_CHECKSUM, 0xff, 2);
	masked[ip_bytes + UDP_BYTES + BTH_RESERVED] = 0xff;
	crc = crc32_z(0, head, LRH_BYTES + head_bytes);
	return (uint32_t)crc32_z(crc, ip + head_bytes, bytes - head_bytes);
}
