/* SPDX-License-Identifier: MIT */
/*
 * Ports as they are now, in the directory: one for all contexts of a device in one network
 * namespace that want the same kind of GID table, from the first open to the last close.
 *
 * The GID table follows the host's addresses. Whoever notices a change (device/port.h, or a
 * query) makes it and raises IBV_EVENT_GID_CHANGE in all contexts. Rows that stay valid keep their
 * index; new rows go to the first empty ones, as in the kernel's table.
 *
 * The port goes down (IBV_EVENT_PORT_ERR) when all interfaces of its GIDs are down, and comes up
 * (IBV_EVENT_PORT_ACTIVE) with the first of the same kind, loopback or not. An interface that is up
 * but has lost its addresses does not take the port down.
 */
#ifndef AV_DEVICE_PORT_H
#define AV_DEVICE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/limits.h"
#include "device/device.h"

/* === gid ========================================================================= */

/* The GID table of an Ethernet port: which rows, in which order, from which addresses. */

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

/* === port ======================================================================== */

/*
 * Give a new context of this process its port, made if there is none. It ends with the last
 * context. Context: the directory is joined. Return: number (> 0), or -ENOSPC, -ENOMEM
 */
AV_MUST_USE int av_port_open(uint32_t ref, const struct av_device *dev);

/*
 * The GID table of the device's port in this thread's network namespace; see av_gid_there().
 * Ethernet: rows in the order of av_gid_table(); InfiniBand: row 0 is fe80:: plus the GUID.
 * The directory need not be joined. Makes system calls, so it is not for the data path: a few while
 * this process has the device open and the host has not changed, else getifaddrs().
 * Context: no lock held, since it may raise events; keeps errno
 * Return: number of rows up to the last in use, 1 .. port.gid_tbl_len; 0: out of memory
 */
unsigned int av_port_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX]);

/*
 * What ibv_query_port() says now: @dev->port, with the state of the port while the device is open
 * somewhere, and the MTU that its interfaces carry. The directory need not be joined. Keeps errno.
 */
void av_port_attr(const struct av_device *dev, struct ibv_port_attr *port);

/*
 * The active MTU of the device's port. @port: a number that av_port_open() returned in this process
 * Context: the directory is joined; lock-free
 */
enum ibv_mtu av_port_mtu(uint32_t port, const struct av_device *dev);

/*
 * Does that address lead to the port, or did it recently? Connections survive a change of
 * addresses.
 * @port: a number that av_port_open() returned to some process, unchecked
 * Context: the directory is joined; lock-free
 */
bool av_port_has_gid(uint32_t port, const union ibv_gid *gid);

/* Is that row of the port in use, as far as is known? Does not ask the host. Context: as above. */
bool av_port_has_row(uint32_t port, uint32_t row);

/*
 * The address of a row; of an empty one its last, or 0 if it never had one. Context: as above.
 * Return: enum ibv_gid_type of the address
 */
uint32_t av_port_gid(uint32_t port, uint32_t row, union ibv_gid *gid);

/* A number of this thread's network namespace; 0: unknown. Keeps errno. */
uint64_t av_netns_of_thread(void);

/*
 * Update all ports in this thread's network namespace, @netns, from the host.
 * Context: the directory is joined; no lock held; makes system calls; raises events
 * Return: false: one may not agree with the host
 */
bool av_port_follow(uint64_t netns);

/*
 * Take the ports of a device down or up in all namespaces, and raise the event. They stay down
 * until this takes them up. Context: as av_port_follow(). Return: number of contexts that were told
 */
unsigned int av_port_force(const char *device, bool down);

/* === port watch ================================================================== */

/*
 * Watching the host's addresses (base/watcher.h) while contexts are open. rtnetlink reports changes
 * in the namespace of the thread that opened the first one. Without netlink, addresses are looked
 * at only when somebody asks.
 *
 * Why a thread: a program may poll its asynchronous descriptor and never call us. That descriptor
 * must not become readable for what turns out to be no event.
 */

/*
 * One more context is open in this process. The first one begins to watch.
 * Context: the directory is joined, and stays so until after av_port_unwatch().
 */
void av_port_watch(void);

/*
 * Do the ports that this process uses agree with the host's addresses in @netns, the namespace of
 * this thread? Follows what has changed since. Costs two system calls if nothing has.
 * Context: as av_port_follow(). Return: false: it is not known
 */
AV_MUST_USE bool av_port_watch_look(uint64_t netns);

/*
 * For others who watch, by a socket of their own: one that becomes readable when an address or an
 * interface of this thread's network namespace changes. Return: false: there is none, and errno
 */
AV_MUST_USE bool av_port_watch_open(struct av_own_fd *socket);

/* Take what such a socket says. Never waits. Return: false: nothing has changed */
AV_MUST_USE bool av_port_watch_heard(int fd);

/* Undo one av_port_watch(). Nobody follows addresses behind the last one. */
void av_port_unwatch(void);

#endif
