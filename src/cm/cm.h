/* SPDX-License-Identifier: MIT */
/* Messages of other hosts: where they come, and which are lost, doubled or late on demand. */
#ifndef AV_CM_CM_H
#define AV_CM_CM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "cm/id.h"
#include "segment/segment.h"

/*
 * Faults on demand at messages: one that has come is lost, comes again, or comes later. What
 * becomes of it then is what becomes of any. The rules are those of the own address's device.
 */

/* A message has come to this process: av_cm_arrived(), as the rules have it. */
av_cm_receive av_cm_faults_arrived;

/*
 * At which addresses of this host messages come by UDP: those that somebody connects from or
 * listens at. Whoever listens at all addresses listens at those that come later, too.
 */

/*
 * From now on until cm_attend_end(). Context: not locked. Return: 0, or -errno of av_net_open();
 * -EOPNOTSUPP: ANYVERBS_TRANSPORT=direct
 */
AV_MUST_USE int av_cm_attend(const uint8_t address[16]);

/*
 * The same of all addresses that our devices have in this thread's network namespace, and will have
 * in that of the thread that calls cm_attend_new(). Those that cannot be had are told to the
 * user.
 */
void av_cm_attend_all(void);

/* What all share in the connection manager: its device file, the events of devices, its thread. */

/* The device file of the connection manager, as libc's functions see it. */

/*
 * open(2) of the device, but no cancellation point. @flags: as there.
 * Return: the program's descriptor, or -1 and errno
 */
int av_cm_open(int flags);

/*
 * Is that descriptor a channel's, of this process or of one that forked it? @number: which one's.
 * Async-signal-safe; makes system calls; keeps errno
 */
bool av_cm_is_channel(int fd, uint32_t *number);

/*
 * write(2) to the device: carry out a command of <rdma/rdma_user_cm.h>.
 * Context: a descriptor that av_cm_is_channel() knows; no lock; waits for an event if asked to. A
 * thread may be cancelled where it begins, as in write(2), and in that wait
 */
ssize_t av_cm_write(int fd, uint32_t number, const void *bytes, size_t count);

/*
 * What ids hear of their device and its interface. Source: Linux, drivers/infiniband/core/cma.c
 * (cma_process_remove(), cma_netdev_change()).
 */

/*
 * For av_seg_call_by(): if the device of that own context has failed (transport/transport.h), the
 * ids of this process that had the device before are removed. Ids that got it later have it as it
 * is after a reset. Context: not locked
 */
void av_cm_device_called(struct av_seg *seg);

/* The life of the connection manager in this process: from its first channel to its last. */

/*
 * Messages of the connection manager may come to any process that has a socket of src/net: have
 * them passed on, or refused, even if this one has no channel. Before the first socket. Again
 * changes nothing. Return: 0 or -ENOMEM
 */
AV_MUST_USE int av_cm_prepare(void);

/*
 * What the thread does each time that it wakes: end what the program has closed, follow the host,
 * repeat and end what is due; then say when to wake next. Context: the thread, not locked
 */
void av_cm_look(void);

/* The process exits: its peers hear of it, as far as that takes no time. */
void av_cm_exit(void);

#endif
