/* SPDX-License-Identifier: MIT */
/*
 * What ids hear of their device and its interface. Source: Linux, drivers/infiniband/core/cma.c
 * (cma_process_remove(), cma_netdev_change()).
 */
#ifndef AV_CM_CM_DEVICE_H
#define AV_CM_CM_DEVICE_H

#include "segment/segment.h"

/*
 * For av_seg_call_by(): if the device of that own context has failed (transport/fatal.h), the ids
 * of this process that had the device before are removed. Ids that got it later have it as it is
 * after a reset. Context: not locked
 */
void av_cm_device_called(struct av_seg *seg);

/*
 * Ids whose interface has another hardware address than they know hear RDMA_CM_EVENT_ADDR_CHANGE.
 * Only those of this thread's network namespace. Context: locked; asks the host
 */
void av_cm_device_look(void);

#endif
