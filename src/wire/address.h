/* SPDX-License-Identifier: MIT */
/* Conversion between GIDs and socket addresses, by pure functions. */
#pragma once

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/packet.h"

union av_net_name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Is the GID a mapped IPv4 address, ::ffff:a.b.c.d? */
static inline bool av_net_is_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

/* Is it a group's: ff00::/8, or the mapped form of an IPv4 group, ::ffff:224.0.0.0/100? */
static inline bool av_net_is_group(const uint8_t gid[16])
{
	return av_net_is_v4(gid) ? gid[12] >> 4 == 14 : gid[0] == 0xff;
}

/* Is the IPv6 address valid on one link only, so that the kernel needs the interface's number? */
static inline bool av_net_is_link_local(const uint8_t gid[16])
{
	return (gid[0] == 0xfe && gid[1] >> 6 == 2) || (gid[0] == 0xff && (gid[1] & 15) <= 2);
}

/* @port: host byte order. @name has its family already. */
static inline void av_net_set_port(union av_net_name *name, uint16_t port)
{
	if (name->any.sa_family == AF_INET)
		name->v4.sin_port = htons(port);
	else
		name->v6.sin6_port = htons(port);
}

/* The socket address of a GID, port AV_ROCE_PORT. @ifindex: of a link-local one. Return: bytes */
static inline socklen_t av_net_name(union av_net_name *name, const uint8_t gid[16],
				    uint32_t ifindex)
{
	memset(name, 0, sizeof(*name));
	if (av_net_is_v4(gid)) {
		name->v4.sin_family = AF_INET;
		av_net_set_port(name, AV_ROCE_PORT);
		memcpy(&name->v4.sin_addr, gid + 12, 4);
		return sizeof(name->v4);
	}
	name->v6.sin6_family = AF_INET6;
	av_net_set_port(name, AV_ROCE_PORT);
	memcpy(&name->v6.sin6_addr, gid, 16);
	if (av_net_is_link_local(gid))
		name->v6.sin6_scope_id = ifindex;
	return sizeof(name->v6);
}

/* The GID of a socket address. Return: its port, host byte order */
static inline uint16_t av_net_gid(const union av_net_name *name, uint8_t gid[16])
{
	if (name->any.sa_family == AF_INET6) {
		memcpy(gid, &name->v6.sin6_addr, 16);
		return ntohs(name->v6.sin6_port);
	}
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &name->v4.sin_addr, 4);
	return ntohs(name->v4.sin_port);
}

/* The same of an address of the host. @from: or NULL. Return: false: neither IPv4 nor IPv6 */
static inline bool av_net_gid_of(const struct sockaddr *from, uint8_t gid[16])
{
	union av_net_name name;

	if (!from || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	memcpy(&name, from, from->sa_family == AF_INET ? sizeof(name.v4) : sizeof(name.v6));
	(void)av_net_gid(&name, gid);
	return true;
}
