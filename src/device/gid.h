/* SPDX-License-Identifier: MIT */
/*
 * The GID table of an Ethernet port: which rows, in which order, from which addresses. The rule is
 * a pure function; asking the host for its addresses is a separate, thin one.
 */
#ifndef AV_DEVICE_GID_H
#define AV_DEVICE_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/limits.h"

#define AV_LOOPBACK_IFINDEX 1 /* of "lo" in every network namespace */

/* One populated row of the GID table. */
struct av_gid {
	union ibv_gid gid;
	uint32_t type; /* enum ibv_gid_type: IBV_GID_TYPE_ROCE_V2, or IBV_GID_TYPE_IB on InfiniBand
			*/
	uint32_t ifindex; /* network interface it was derived from; 0 on InfiniBand */
	char ifname[16];  /* its name, NUL terminated; "" on InfiniBand */
};

static inline bool av_gid_is_empty(const struct av_gid *row)
{
	return !row->gid.global.subnet_prefix && !row->gid.global.interface_id;
}

/* Is row @index of a table with @count rows populated? */
static inline bool av_gid_there(const struct av_gid *gids, unsigned int count, unsigned int index)
{
	return index < count && !av_gid_is_empty(&gids[index]);
}

/* One address of one of the host's interfaces. */
struct av_host_addr {
	uint8_t addr[16]; /* IPv6, or IPv4 in its mapped form ::ffff:a.b.c.d; network byte order */
	uint32_t ifindex; /* of the interface */
	char ifname[16];  /* its name, NUL terminated */
	bool up;	  /* the interface is administratively up */
	bool loopback;	  /* the interface is a loopback interface */
};

/**
 * av_gid_table() - the rows that these addresses give
 * @addrs: @count addresses in any order; at most 2^28
 * @gids:  out, @max rows at least 1
 *
 * First IPv4 and global IPv6 addresses by interface number, IPv4 before IPv6 within an interface
 * and else in the order given, then link-local IPv6 likewise. Those of loopback interfaces only if
 * that gives nothing: loopback addresses first, 127.0.0.1 before ::1. A GID that is there already
 * is not repeated; interfaces that are down and addresses that name no host (unspecified,
 * multicast) give no row. If no row results, there is 127.0.0.1, which is good for peers on this
 * host. Return: number of rows, 1 .. @max
 */
unsigned int av_gid_table(const struct av_host_addr *addrs, size_t count, struct av_gid *gids,
			  unsigned int max);

/* How far peers may be that a table leads to; more is further. */
enum av_link {
	AV_LINK_NONE,	  /* no interface is up: the row for 127.0.0.1 stands for none */
	AV_LINK_LOOPBACK, /* addresses of loopback interfaces only */
	AV_LINK_NETWORK,
};

/* What the table of these addresses is made of. */
enum av_link av_gid_link(const struct av_host_addr *addrs, size_t count);

/* A table as the host's addresses give it. */
struct av_host_gids {
	struct av_gid row[AV_GID_MAX];
	unsigned int count; /* 1 .. AV_GID_MAX; 0: there was no memory to ask with */
	enum av_link link;
};

/**
 * av_gid_from_host() - av_gid_table(), at most @max rows, of the addresses the host has now
 *
 * Context: any thread; allocates; keeps errno. If the host cannot be asked, the row for 127.0.0.1.
 */
void av_gid_from_host(struct av_host_gids *host, unsigned int max);

/* Is that interface of the host administratively up? Keeps errno. */
bool av_gid_interface_up(uint32_t ifindex);

/**
 * av_gid_merge() - bring a table in use up to date
 * @table: @max rows, some of them empty; changed
 * @fresh: @count rows that it should have, all different
 *
 * Rows that are not wanted any more become empty. Wanted ones stay where they are; new ones go to
 * the first empty rows, in the order given, as far as there are any. Return: true if something
 * changed
 */
bool av_gid_merge(struct av_gid *table, unsigned int max, const struct av_gid *fresh,
		  unsigned int count);

/* The GID fe80:: plus @guid (host byte order): row 0 of an InfiniBand port. */
void av_gid_from_guid(uint64_t guid, struct av_gid *gid);

#endif
