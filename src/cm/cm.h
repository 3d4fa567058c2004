/* SPDX-License-Identifier: MIT */
/* The connection manager for other folders: its device file, events, addresses and thread. */
#pragma once

#include "cm/id.h"

/* In these contracts, "locked" means that the caller holds av_cm_lock(). */

/*
 * Receive messages by UDP at an own address, until the connection manager ends in this process.
 * Logs a failure with av_net_warn(). Again changes nothing. NULL: at all RoCE v2 addresses of our
 * devices in this thread's network namespace; the connection manager's thread adds later ones of
 * its own namespace. Context: not locked; not within the receiver of src/net: may wait for it
 * Return: 0, also for NULL, or -errno of av_net_open(). -EOPNOTSUPP: ANYVERBS_TRANSPORT=direct;
 * -ENOSPC also: too many addresses
 */
AV_MUST_USE int av_cm_attend(const uint8_t *address);

/* --- the device file ------------------------------------------------------------- */

/*
 * open(2) of /dev/infiniband/rdma_cm, but no cancellation point. The first channel joins the
 * directory and starts the thread. Context: not locked. Return: the descriptor, or -1 and errno
 */
int av_cm_open(int flags);

/*
 * Is @fd an event channel, of this process or of one that forked it? @number: out, the channel's.
 * Async-signal-safe; makes a system call; keeps errno
 */
bool av_cm_is_channel(int fd, uint32_t *number);

/*
 * write(2) to the device: execute a command of <rdma/rdma_user_cm.h>. @fd, @number: as
 * av_cm_is_channel() had them. @bytes: the program's, which may be invalid memory. Context: not
 * locked. RDMA_USER_CM_CMD_GET_EVENT blocks until there is an event, unless O_NONBLOCK. A thread
 * can be cancelled at the start, as in write(2), and in that wait. Return: @count, or -1 and errno
 */
ssize_t av_cm_write(int fd, uint32_t number, const void *bytes, size_t count);

/* --- devices --------------------------------------------------------------------- */

/*
 * For av_seg_call_by(). If the own context @seg has failed, remove the ids that got the device
 * before: RDMA_CM_EVENT_DEVICE_REMOVAL. Later ids use the device after the reset. Source: Linux,
 * drivers/infiniband/core/cma.c, cma_process_remove(). Context: not locked; the watcher's thread
 */
void av_cm_device_called(struct av_seg *seg);

/* --- life ------------------------------------------------------------------------ */

/*
 * Set the receiver and the manager of src/net, before the first socket: any process with one may
 * get messages, which it forwards or refuses. Again changes nothing. Return: 0 or -ENOMEM
 */
AV_MUST_USE int av_cm_prepare(void);

/*
 * One round of the thread: end the channels that the program has closed, follow the host's
 * addresses (RDMA_CM_EVENT_ADDR_CHANGE: Linux, cma.c, cma_netdev_change()), retransmit, end
 * connections that are over, and set the next wake-up. Context: the thread, not locked
 */
void av_cm_look(void);

/*
 * Watch the host's addresses and interfaces until the last channel ends, in this thread's network
 * namespace, where that of cm.c is, too. Without netlink it reports no change. Context: not locked
 */
void av_cm_host_begin(void);

/* At exit, end each connection once, if the lock is free in time. A destructor, not locked */
void av_cm_exit(void);
