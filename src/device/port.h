/* SPDX-License-Identifier: MIT */
/*
 * Ports as they are now: the GID table and the state of a device's port. They are in the directory
 * and shared by all contexts of the device in one network namespace. A port exists from the first
 * open to the last close.
 *
 * The table follows the host's addresses. Whoever notices a change (the watcher in
 * device/port_watch.h, or a query) changes the table and raises IBV_EVENT_GID_CHANGE in all
 * contexts of the port. Rows that stay valid keep their index. New rows go to the first empty ones,
 * as in the kernel's table.
 *
 * The port goes down when all interfaces that its GIDs come from are down. It comes up again with
 * the first interface of the same kind (loopback or not). The events are IBV_EVENT_PORT_ERR and
 * IBV_EVENT_PORT_ACTIVE. An interface that is up but has lost its addresses does not take the port
 * down.
 */
#ifndef AV_DEVICE_PORT_H
#define AV_DEVICE_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "device/device.h"
#include "device/gid.h"

/**
 * av_port_open() - give a new context of this process its port
 *
 * Makes the port if there is none yet. It ends with the last context.
 * Context: the directory is joined
 * Return: number (> 0), or -ENOSPC, -ENOMEM
 */
AV_MUST_USE int av_port_open(uint32_t ref, const struct av_device *dev);

/**
 * av_port_gids() - the current GID table of the device's port in this thread's network namespace
 * @gids: out, at most AV_GID_MAX rows; see av_gid_there()
 *
 * Ethernet: RoCEv2 rows from the host's addresses, in the order of av_gid_table(). InfiniBand: row
 * 0 is fe80:: plus the GUID. While the device is open somewhere, its table follows the host: rows
 * that stay valid keep their index, others become empty or are reused.
 *
 * The directory need not be joined. Calls getifaddrs(), so it is not for the data path.
 * Context: no lock held, since it may raise events; keeps errno
 * Return: number of rows up to the last one in use, 1 .. port.gid_tbl_len; 0: out of memory
 */
unsigned int av_port_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX]);

/*
 * What ibv_query_port() says now: @dev->port, with the state of the port while the device is open
 * somewhere. The directory need not be joined. Keeps errno.
 */
void av_port_attr(const struct av_device *dev, struct ibv_port_attr *port);

/**
 * av_port_has_gid() - does that address lead to the port?
 * @port: a number that av_port_open() returned to some process, unchecked
 *
 * True also for an address that has left the table recently, so that connections survive.
 * Context: the directory is joined; lock-free
 */
bool av_port_has_gid(uint32_t port, const union ibv_gid *gid);

/* Is that row of the port in use, as far as is known? Does not ask the host. Context: as above. */
bool av_port_has_row(uint32_t port, uint32_t row);

/*
 * The address of a row. That of an empty row is its last one, or 0 if it never had one. Context: as
 * above.
 */
void av_port_gid(uint32_t port, uint32_t row, union ibv_gid *gid);

/**
 * av_port_follow() - update all ports in this thread's network namespace from the host
 *
 * Context: the directory is joined; no lock held; makes system calls; raises events
 */
void av_port_follow(void);

/**
 * av_port_force() - take the ports of a device down or up in all namespaces, and raise the event
 *
 * A port that was taken down stays down until this takes it up.
 * Context: as av_port_follow()
 * Return: number of contexts that were told
 */
unsigned int av_port_force(const char *device, bool down);

#endif
