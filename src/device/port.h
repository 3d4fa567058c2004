/* SPDX-License-Identifier: MIT */
/*
 * Ports: the GID table, the state and the MTU of each, and the watch that has them follow the host:
 * anyverbs_config(5), "link". All contexts of a device in one network namespace share one port if
 * they want the same kind of GID table, from the first open to the last close. The thread that
 * notices a change, in the watch or in a query, updates the table and raises the events in all
 * contexts. New rows fill the first empty ones, as in the kernel's table.
 *
 * The port comes up when an interface reaches as far as before (enum av_link). An interface that is
 * up but has lost its addresses does not take it down.
 *
 * @netns: the network namespace of this thread. "Joined": the directory is joined. What
 * queries the host makes system calls and keeps errno; any thread, joined or not.
 */
#pragma once

#include "device/device.h"
#include "device/gid.h"

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
 * addresses, by rtnetlink in the network namespace of the thread that opened the first context;
 * without that, only queries do. A program may poll its asynchronous descriptor and never call us.
 */

/*
 * Count one more open context of this process. The first one starts the watch.
 * Context: joined until after av_port_watch_end(); not within a change; keeps errno
 */
void av_port_watch_begin(void);

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

/* Undo one av_port_watch_begin(). The last one ends the watch, and waits for the watcher's thread.
 */
void av_port_watch_end(void);
