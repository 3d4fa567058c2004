/* SPDX-License-Identifier: MIT */
/* Opening a device: the segment of a new context, with what it takes over from the device. */
#ifndef AV_DEVICE_DEVICE_OPEN_H
#define AV_DEVICE_DEVICE_OPEN_H

#include "device/device.h"
#include "segment/segment.h"

/**
 * av_device_open() - the segment of a new context of this process
 *
 * With the device's port, made if there is none yet, and the switches in force. The directory is
 * joined. Closed by av_seg_close().
 * @origin: context to import from, or 0
 * Return: the segment with one user, or NULL and errno
 */
struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin);

#endif
