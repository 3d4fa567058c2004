/* SPDX-License-Identifier: MIT */
/* The GID table of an Ethernet port: which rows, in which order, from which addresses. */
#ifndef AV_DEVICE_GID_H
#define AV_DEVICE_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/limits.h"

#define AV_LOOPBACK_IFINDEX 1  /* of "lo" in every network namespace */
#define AV_HARDWARE_BYTES   14 /* that SIOCGIFHWADDR says; Ethernet has 6 */

/* A row of the GID table that is in use. */
struct av_gid {
	union ibv_gid gid;
	uint32_t type;	  /* enum ibv_gid_type; on InfiniBand IBV_GID_TYPE_IB */
	uint32_t ifindex; /* network interface it comes from; 0 on InfiniBand */
	char ifname[16];  /* its name, NUL terminated; "" on InfiniBand */
};

/* All zero: nobody's address. */
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

/* What a port's table is to look like: its device's configuration. */
struct av_gid_form {
	unsigned int max; /* rows that there may be, 1 .. AV_GID_MAX */
	bool paired;	  /* as mlx5 has them, see av_gid_table() */
	uint64_t guid;	  /* of the device, host byte order; for paired rows only */
};

#define AV_GID_FIXED 2 /* the first rows of a paired table: they never become empty */

/*
 * Make the rows that these addresses (at most 2^28) give, as many as @form permits:
 * - IPv4 and global IPv6 addresses, by interface number, in each IPv4 first, then as given
 * - link-local IPv6 addresses, likewise
 * - only if these give no row: addresses of loopback interfaces, first 127.0.0.1, then ::1
 * - if there is still no row: 127.0.0.1, good enough for peers on this host
 * Each address gives one row, RoCE v2.
 *
 * Paired: each gives two, RoCE v1 and v2. IPv4 comes before IPv6 whatever the interface. In front
 * of all, AV_GID_FIXED rows are the link-local IPv6 address of the first address's interface; if it
 * has none, one made of the GUID. So a host with an IPv4 address has it in rows 2 and 3.
 *
 * No address appears twice. An interface that is down gives no row, nor an address that names no
 * host. Return: number of rows, 1 .. @form->max
 */
unsigned int av_gid_table(const struct av_host_addr *addrs, size_t count,
			  const struct av_gid_form *form, struct av_gid *gids);

/* How far away the peers may be that a table reaches, in ascending order. */
enum av_link {
	AV_LINK_NONE,	  /* no interface is up; the table has 127.0.0.1 instead */
	AV_LINK_LOOPBACK, /* only addresses of loopback interfaces */
	AV_LINK_NETWORK,
};

/* What the table of these addresses consists of. */
enum av_link av_gid_link(const struct av_host_addr *addrs, size_t count);

/* A table made from the host's addresses. */
struct av_host_gids {
	struct av_gid row[AV_GID_MAX];
	unsigned int count; /* 1 .. AV_GID_MAX; 0: out of memory */
	enum av_link link;
};

/*
 * av_gid_table() for the addresses that the host has now; if it cannot be asked, 127.0.0.1.
 * Context: any thread; allocates; keeps errno
 */
void av_gid_from_host(struct av_host_gids *host, const struct av_gid_form *form);

/* Is that interface administratively up? Keeps errno. */
bool av_gid_interface_up(uint32_t ifindex);

/* The hardware address of that interface; zeros: unknown, or it has none. Keeps errno. */
void av_gid_interface_hardware(uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES]);

/*
 * Update a table in use to the rows that it should have, all different. Other rows become empty,
 * the rest stay where they are, new ones go to the first empty rows as far as there is room. The
 * fixed rows of a paired table are replaced instead.
 * @fresh, @count: what av_gid_table() makes for @form; return: true if anything changed
 */
bool av_gid_merge(struct av_gid *table, const struct av_gid_form *form, const struct av_gid *fresh,
		  unsigned int count);

/*
 * What fits all interfaces of a GID table: whichever row a program takes, its packets pass. Those
 * that cannot be asked do not count.
 * Context: makes system calls; keeps errno
 */
enum ibv_mtu av_mtu_of_rows(const struct av_gid *rows, unsigned int count);

/* The GID fe80:: plus @guid (host byte order): row 0 of an InfiniBand port. */
void av_gid_from_guid(uint64_t guid, struct av_gid *gid);

#endif
