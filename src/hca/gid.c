/* SPDX-License-Identifier: MIT */
/* GIDs from the host's addresses. Each address gets a rank; the order of the table is the order of the ranks. */
#include "hca/gid.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* In table order. The ranks from RANK_LOOPBACK on count only when there are none before. */
enum rank {
	RANK_GLOBAL,
	RANK_LINK_LOCAL,
	RANK_LOOPBACK,
	RANK_ON_LOOPBACK, /* some other address that somebody gave to a loopback interface */
	RANK_NONE,
};

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};
static const uint8_t loopback_v6[16] = {[15] = 1};
static const uint8_t unspecified[16];

/* Every network namespace has "lo" and numbers it 1, even before it is up and has an address. */
static const struct av_gid last_resort = {
	.gid.raw = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1},
	.type = IBV_GID_TYPE_ROCE_V2,
	.ifindex = 1,
	.ifname = "lo",
};

static bool is_mapped_v4(const uint8_t addr[16])
{
	return !memcmp(addr, mapped_prefix, sizeof(mapped_prefix));
}

static bool is_loopback(const uint8_t addr[16])
{
	return is_mapped_v4(addr) ? addr[12] == 127 : !memcmp(addr, loopback_v6, sizeof(loopback_v6));
}

static bool is_link_local_v6(const uint8_t addr[16])
{
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80;
}

/* Neither the unspecified address nor a group: RFC 4291, 2.7; RFC 1112, 4. */
static bool names_a_host(const uint8_t addr[16])
{
	if (is_mapped_v4(addr))
		return addr[12] != 0 && (addr[12] & 0xf0) != 0xe0;
	return addr[0] != 0xff && memcmp(addr, unspecified, sizeof(unspecified));
}

static enum rank rank_of(const struct av_host_addr *a)
{
	if (!a->up || !names_a_host(a->addr))
		return RANK_NONE;
	if (is_loopback(a->addr))
		return RANK_LOOPBACK;
	if (a->loopback)
		return RANK_ON_LOOPBACK;
	return is_link_local_v6(a->addr) ? RANK_LINK_LOCAL : RANK_GLOBAL;
}

/*
 * The sort key: rank, interface, family, position; unique, so that any sort is a stable one. Both loopback addresses
 * belong to one interface as a rule, so the family decides between them.
 */
static int compare(const void *pa, const void *pb)
{
	const struct av_host_addr *const *a = pa, *const *b = pb;
	int v4_a = is_mapped_v4((*a)->addr), v4_b = is_mapped_v4((*b)->addr);

	if ((*a)->rank != (*b)->rank)
		return (*a)->rank < (*b)->rank ? -1 : 1;
	if ((*a)->ifindex != (*b)->ifindex)
		return (*a)->ifindex < (*b)->ifindex ? -1 : 1;
	if (v4_a != v4_b)
		return v4_b - v4_a;
	return *a < *b ? -1 : *a > *b;
}
