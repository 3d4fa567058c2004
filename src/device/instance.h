/* SPDX-License-Identifier: MIT */
/*
 * What ibv_get_device_list() hands out for a device. After a failure it is another one, with
 * another number, as the kernel has it when a device has gone and come back. librdmacm keeps the
 * context of a device that it knows, and opens one that it does not know: by that it finds the
 * device well again. All that were ever handed out stay valid, and lead to the same device.
 */
#ifndef AV_DEVICE_INSTANCE_H
#define AV_DEVICE_INSTANCE_H

#include <stdint.h>
#include <infiniband/verbs.h>

#include "device/device.h"

/* The one that is handed out now, and its number. Context: any thread; lock-free */
struct ibv_device *av_instance(struct av_device *dev);
uint32_t av_instance_number(const struct av_device *dev);

/* The number of one of ours that was handed out, perhaps before a failure. */
uint32_t av_instance_number_of(const struct ibv_device *ibv);

/*
 * A context of this process on the device of that name has failed, as number @failure of
 * av_dir_failures(): there is another one, unless it is newer already. Without memory there is not.
 * Context: the watcher's thread; the directory is joined
 */
void av_instance_renew(const char *name, uint32_t failure);

#endif
