/* SPDX-License-Identifier: MIT */
/*
 * The GID table of an Ethernet port. What queries the host makes system calls and keeps errno; any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/limits.h"

#define AV_LOOPBACK_IFINDEX 1  /* "lo" has this number in every network namespace */
#define AV_HARDWARE_BYTES   14 /* room for an address in SIOCGIFHWADDR; Ethernet uses 6 */

/* A row of a GID table; all zero: the row is empty. */
struct av_gid {
	union ibv_gid gid;
	uint32_t type;	  /* enum ibv_gid_type; on InfiniBand IBV_GID_TYPE_IB */
	uint32_t ifindex; /* the network interface that has the address; 0 on InfiniBand */
	char ifname[16];  /* the interface's name, NUL terminated; "" on InfiniBand */
};

/* Is the GID all zero, which no address is? */
static inline bool av_gid_is_none(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

static inline bool av_gid_is_empty(const struct av_gid *row)
{
	return av_gid_is_none(&row->gid);
}

/* Is row @index in use, in a table of @count rows? */
static inline bool av_gid_there(const struct av_gid *gids, unsigned int count, unsigned int index)
{
	return index < count && !av_gid_is_empty(&gids[index]);
}

/* An address of an interface of the host. */
struct av_host_addr {
	uint8_t addr[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d; network byte order */
	uint32_t ifindex; /* number of its interface */
	char ifname[16];  /* its name, NUL terminated */
	bool up;	  /* the interface is administratively up */
	bool loopback;	  /* the interface is a loopback interface */
};

/* The form of a port's GID table, from the device's configuration. */
struct av_gid_form {
	unsigned int max;   /* most rows, 1 .. AV_GID_MAX */
	unsigned int empty; /* rows in front that stay empty: fewer than @max */
	bool paired;	    /* mlx5's pairs of rows: av_gid_table() */
	uint64_t guid;	    /* of the device, host byte order; used for paired tables only */
};

#define AV_GID_FIXED 2 /* the first rows of a paired table: they never become empty */
#define AV_GID_EMPTY 2 /* those of a strict device that are */

/*
 * Make the rows for the host's addresses (at most 2^28), up to the maximum of @form, in this order:
 * - IPv4 and global IPv6 addresses, by interface number; within one IPv4 first, then as in @addrs
 * - link-local IPv6 addresses, in the same order
 * - only if there is no row yet: loopback interfaces' addresses, 127.0.0.0/8, then ::1, then others
 * - only if there is still no row: 127.0.0.1, so that peers on this host work
 * Each address gives one row, of RoCE v2.
 *
 * In a paired table each address gives two rows, RoCE v1 and v2, and in each group above IPv4 comes
 * first. The first AV_GID_FIXED rows, behind the empty ones, are the link-local IPv6 address of the
 * first address's interface, or else one made from the GUID. So a host's first IPv4 address is in
 * rows 2 and 3.
 *
 * No address appears twice. Interfaces that are down give no row, nor do unspecified and multicast
 * addresses (RFC 4291, 2.7; RFC 1112, 4). A pure function
 * @gids: room for @form->max rows. Return: number of rows, 1 .. @form->max
 */
unsigned int av_gid_table(const struct av_host_addr *addrs, size_t count,
			  const struct av_gid_form *form, struct av_gid *gids);

/* The farthest peers that a table reaches, in ascending order. */
enum av_link {
	AV_LINK_NONE,	  /* no interface is up; the table has only 127.0.0.1 */
	AV_LINK_LOOPBACK, /* only addresses of loopback interfaces */
	AV_LINK_NETWORK,
};

/* The farthest peers that these addresses reach. A pure function */
enum av_link av_gid_link(const struct av_host_addr *addrs, size_t count);

/* A table made from the host's addresses. */
struct av_host_gids {
	struct av_gid row[AV_GID_MAX];
	unsigned int count; /* 1 .. AV_GID_MAX; 0: out of memory */
	enum av_link link;
};

/*
 * Make the table for the addresses that this thread's network namespace has now: 127.0.0.1, if the
 * kernel does not list them. Allocates; without memory, @host->count is 0.
 */
void av_gid_from_host(struct av_host_gids *host, const struct av_gid_form *form);

/* Is that interface administratively up? False also if the query fails, as without a descriptor. */
bool av_gid_interface_up(uint32_t ifindex);

/* The interface's hardware address; zeros: unknown, or there is none. */
void av_gid_interface_hardware(uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES]);

/*
 * Update a table in use, of @form->max rows, to @fresh and @count of av_gid_table() for @form. Rows
 * not in @fresh become empty; others keep their index. New rows fill the first empty ones, if any;
 * a paired table's fixed rows are replaced in place. A pure function. Return: did anything change?
 */
bool av_gid_merge(struct av_gid *table, const struct av_gid_form *form, const struct av_gid *fresh,
		  unsigned int count);

/*
 * The largest MTU that all interfaces of a GID table carry, so that packets pass whichever row a
 * program uses. Interfaces whose MTU cannot be queried do not count.
 */
enum ibv_mtu av_mtu_of_rows(const struct av_gid *rows, unsigned int count);

/* Make row 0 of an InfiniBand port: fe80:: plus @guid (host byte order). A pure function */
void av_gid_from_guid(uint64_t guid, struct av_gid *gid);
