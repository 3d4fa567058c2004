/* SPDX-License-Identifier: MIT */
/*
 * Ports as they are now, in the directory: one for all contexts of a device in one network
 * namespace that want the same kind of GID table, from the first open to the last close.
 *
 * The GID table follows the host's addresses. Whoever notices a change (device/port_watch.h, or a
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
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "device/device.h"
#include "device/gid.h"

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

#endif
