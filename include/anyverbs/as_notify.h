/* SPDX-License-Identifier: MIT */
/*
 * AS notify: wait for the event of a completion queue without its channel's file descriptor. For
 * queues created by ibv_exp_create_cq() with IBV_EXP_CQ_AS_NOTIFY, on a device whose switch
 * IBM_AS_NOTIFY_EN is on. For other queues it waits for the channel's event. See
 * anyverbs_cq_wait(3).
 */
#ifndef ANYVERBS_AS_NOTIFY_H
#define ANYVERBS_AS_NOTIFY_H

#include <time.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * anyverbs_cq_wait() - sleep until the event of an armed completion queue
 * @cq: armed by ibv_req_notify_cq(), before the call or by another thread during it
 * @timeout: maximum time to wait; NULL: no limit
 *
 * Each event ends one wait and needs no acknowledgement. Any number of threads may wait.
 * Return: 0, or an errno value:
 * - ETIMEDOUT: no event within the timeout
 * - EINTR: a signal handler ran, with or without SA_RESTART
 * - EINVAL: the timeout is negative or malformed; or the queue has no channel and is not for AS
 *   notify
 * - ENOENT: no such completion queue
 * - EPERM: the queue belongs to the parent process
 * - ENOSYS: the queue belongs to another provider's device
 */
int anyverbs_cq_wait(struct ibv_cq *cq, const struct timespec *timeout);

#ifdef __cplusplus
}
#endif

#endif
