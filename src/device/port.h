/* SPDX-License-Identifier: MIT */
/*
 * Ports: the GID table, the state and the MTU of each, and the watch that has them follow the host.
 *
 * All contexts of a device in one network namespace share one port if they want the same kind of
 * GID table. The port exists from the first open to the last close.
 *
 * The GID table follows the host's addresses. The thread that notices a change, in the watch or in
 * a query, updates the table and raises IBV_EVENT_GID_CHANGE in all contexts. A row that stays
 * valid keeps its index. New rows fill the first empty ones, as in the kernel's table.
 *
 * The port goes down (IBV_EVENT_PORT_ERR) when all interfaces of its GIDs are down. It comes up
 * (IBV_EVENT_PORT_ACTIVE) when an interface reaches as far as before (enum av_link). An interface
 * that is up but has lost its addresses does not take the port down.
 *
 * @netns: the network namespace of this thread. "Joined": the directory is joined. What
 * queries the host makes system calls and keeps errno; any thread, joined or not.
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

/* The GID table of an Ethernet port. */

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
	unsigned int max; /* most rows, 1 .. AV_GID_MAX */
	bool paired;	  /* mlx5's pairs of rows: av_gid_table() */
	uint64_t guid;	  /* of the device, host byte order; used for paired tables only */
};

#define AV_GID_FIXED 2 /* the first rows of a paired table: they never become empty */

/*
 * Make the rows for the host's addresses (at most 2^28), up to the maximum of @form, in this order:
 * - IPv4 and global IPv6 addresses, by interface number; within one IPv4 first, then as in @addrs
 * - link-local IPv6 addresses, in the same order
 * - only if there is no row yet: loopback interfaces' addresses, 127.0.0.0/8, then ::1, then others
 * - only if there is still no row: 127.0.0.1, so that peers on this host work
 * Each address gives one row, of RoCE v2.
 *
 * In a paired table each address gives two rows, RoCE v1 and v2, and in each group above IPv4 comes
 * first. The first AV_GID_FIXED rows are the link-local IPv6 address of the first address's
 * interface, or else one made from the GUID. So a host's first IPv4 address is in rows 2 and 3.
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

/* === port ======================================================================== */

/*
 * Record in the directory that context @ref of this process uses the device's port in this thread's
 * network namespace. Makes the port if there is none. The port ends with its last context.
 * Context: joined; waits as av_dir_change_begin() if no port is open
 * Return: the port's number (> 0). -ENOSPC: too many ports; -ENOMEM; -EBUSY: av_dir_change_begin()
 */
AV_MUST_USE int av_port_open(uint32_t ref, const struct av_device *dev);

/*
 * Copy the GID table of the device's port in this thread's network namespace; see av_gid_there().
 * Ethernet: rows in the order of av_gid_table(), unless the host has changed since. InfiniBand: row
 * 0 is fe80:: plus the GUID. Not for the data path, nor with a lock of it: makes a few system calls
 * while this process has the device open and the host has not changed, else calls getifaddrs(); may
 * raise events (the connection manager holds its own lock). Joined or not; keeps errno.
 * Return: number of rows up to the last in use, 1 .. port.gid_tbl_len; 0: out of memory
 */
unsigned int av_port_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX]);

/*
 * Attributes for ibv_query_port(): @dev->port, with the state that the directory has while the
 * device is open somewhere, and on Ethernet the MTU of the interfaces. It queries the host.
 */
void av_port_attr(const struct av_device *dev, struct ibv_port_attr *port);

/*
 * Does that address belong to the port, or did it recently? Former addresses count, so that
 * connections survive a change of addresses. @port: any number, here and below: one from a peer's
 * segment is not trusted. Context: joined; lock-free
 */
bool av_port_has_gid(uint32_t port, const union ibv_gid *gid);

/* Is that row in use, as the directory has it? Lock-free, no system call. False if not joined */
bool av_port_has_row(uint32_t port, uint32_t row);

/*
 * The address of a row. An empty row has its last one, or 0 if it never had any, as has an
 * impossible @port or @row. Context: joined; lock-free. Return: enum ibv_gid_type of the address
 */
uint32_t av_port_gid(uint32_t port, uint32_t row, union ibv_gid *gid);

/* The inode of this thread's network namespace; 0: unknown. One system call; keeps errno */
uint64_t av_netns_of_thread(void);

/*
 * Update all ports in @netns from the host's addresses. Return: false: one may not agree with them
 * Context: joined; no lock held; makes system calls; waits as av_dir_change_begin(); raises events
 */
bool av_port_follow(uint64_t netns);

/*
 * Force a device's ports down or up in all network namespaces, and raise the event. A port that was
 * forced down stays down until this function takes it up. Context: as av_port_follow().
 * Return: number of contexts that were notified
 */
unsigned int av_port_force(const char *device, bool down);

/* === port watch ================================================================== */

/*
 * While this process has contexts open, the watcher's thread (base/watcher.h) follows the host's
 * addresses. rtnetlink reports changes in the network namespace of the thread that opened the first
 * context. Without netlink, only queries bring a port up to date.
 *
 * A thread is needed: a program may poll its asynchronous descriptor and never call the library.
 * The netlink socket cannot make that descriptor readable: many changes turn out to be no event.
 */

/*
 * Count one more open context of this process. The first one starts the watch.
 * Context: joined until after av_port_unwatch(); not within a change; keeps errno
 */
void av_port_watch(void);

/*
 * Do the ports agree with the host's addresses in @netns? Updates them if the host has changed,
 * else makes two system calls. Context: as av_port_follow(). Return: false: unknown, since no watch
 * covers @netns, another thread is updating the ports, or the update failed
 */
AV_MUST_USE bool av_port_watch_look(uint64_t netns);

/*
 * Open @socket, for the caller, as another watch: it becomes readable when an address or interface
 * of this thread's network namespace changes. Return: false: there is no such socket, and errno
 */
AV_MUST_USE bool av_port_watch_open(struct av_own_fd *socket);

/* Drain such a socket. Never blocks. Return: has anything changed? */
AV_MUST_USE bool av_port_watch_heard(int fd);

/* Undo one av_port_watch(). The last one ends the watch, and waits for the watcher's thread. */
void av_port_unwatch(void);

#endif
