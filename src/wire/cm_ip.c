/* SPDX-License-Identifier: MIT */
/* Who connects to whom, in the private data of a message. Source: IBTA volume 1, annex A11. */
#include <string.h>

#include "wire/bytes.h"
#include "wire/cm_message.h"

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
