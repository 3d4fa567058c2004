/* SPDX-License-Identifier: MIT */
/*
 * Ports as they are now: the GID table and the state of a device's port, kept in the directory for
 * all contexts of the device in one network namespace, from the first that is opened until the last
 * is closed.
 *
 * The table follows the host's addresses. Whoever notices that they have changed (the watcher of
 * device/port_watch.h, a query) changes the table and raises IBV_EVENT_GID_CHANGE in all contexts
 * of the port. A row that stays valid keeps its index; new rows take the first empty ones, as in
 * the kernel's table.
 *
 * The state: the port goes down when all interfaces that its GIDs come from are down, and comes up
 * again with the first of the same kind (loopback or not). IBV_EVENT_PORT_ERR and
 * IBV_EVENT_PORT_ACTIVE say so. An interface that is up and has lost its addresses does not take
 * the port down.
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
 * av_port_open() - the port of a new context of this process, made if there is none yet
 *
 * It ends with the last context. The directory is joined. Return: number (> 0), or -ENOSPC,
 * -ENOMEM
 */
AV_MUST_USE int av_port_open(uint32_t ref, const struct av_device *dev);

/**
 * av_port_gids() - the GID table of the device's port in this thread's network namespace, as of now
 * @gids: out, at most AV_GID_MAX rows; see av_gid_there()
 *
 * Ethernet: RoCEv2 rows from the host's addresses. Order: IPv4 (mapped) and global IPv6 of
 * interfaces that are up, in interface order, then link-local IPv6; loopback addresses only when
 * there is nothing else (127.0.0.1, then ::1). InfiniBand: row 0 is fe80:: plus the GUID. While the
 * device is open somewhere, its table follows the host: rows that stay valid keep their index,
 * others become empty or are used anew.
 *
 * Needs no join. Cost: a getifaddrs() call; not for the data path. Keeps errno. May raise events:
 * no lock held. Return: number of rows, 1 .. port.gid_tbl_len, the last one populated; 0: no memory
 * to ask with
 */
unsigned int av_port_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX]);

/* What ibv_query_port() says as of now: @dev->port, and the state of the port while the device is
 * open somewhere. Needs no join. Keeps errno. */
void av_port_attr(const struct av_device *dev, struct ibv_port_attr *port);

/**
 * av_port_has_gid() - does that address lead to the port?
 * @port: a number that av_port_open() gave to somebody, unchecked
 *
 * Also one that has left the table lately: what is connected stays connected. Lock-free; the
 * directory is joined.
 */
bool av_port_has_gid(uint32_t port, const union ibv_gid *gid);

/* Is that row of the port populated, as far as is known? Neither asks the host nor waits. Likewise.
 */
bool av_port_has_row(uint32_t port, uint32_t row);

/* The address of a row, or of the row's last address if it is empty now; 0 if it never had one.
 * Likewise. */
void av_port_gid(uint32_t port, uint32_t row, union ibv_gid *gid);

/**
 * av_port_follow() - look at the host for all ports in this thread's network namespace
 *
 * Context: the directory is joined, no lock held; makes system calls; raises events.
 */
void av_port_follow(void);

/**
 * av_port_force() - take the ports of a device down, or up again, in all namespaces, and raise the
 * event
 *
 * A port that is taken down so stays down until it is taken up again. Context: as av_port_follow().
 * Return: number of contexts that were told
 */
unsigned int av_port_force(const char *device, bool down);

#endif
