/* SPDX-License-Identifier: MIT */
/*
 * AS notify: waiting for the event of a completion queue without the file of a completion channel.
 * This works for queues that ibv_exp_create_cq() made with IBV_EXP_CQ_AS_NOTIFY, on a device whose
 * switch IBM_AS_NOTIFY_EN is on. For others it waits for the channel's event. See
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
 * anyverbs_cq_wait() - put the thread to sleep until the event of an armed completion queue
 * @cq:      armed by ibv_req_notify_cq() before, or by another thread meanwhile
 * @timeout: how long at most, NULL: for ever
 *
 * One event ends one wait. There is nothing to acknowledge. Any number of threads may wait.
 * Return: 0, or an errno value:
 *         ETIMEDOUT  no event in that time
 *         EINTR      a signal handler ran, whether or not calls are restarted after it
 *         EINVAL     the timeout is not a valid time, or the queue has no channel and is not for
 *                    AS notify
 *         ENOENT     there is no such completion queue
 *         EPERM      it belongs to the parent process
 *         ENOSYS     it belongs to another provider's device
 */
int anyverbs_cq_wait(struct ibv_cq *cq, const struct timespec *timeout);

#ifdef __cplusplus
}
#endif

#endif
