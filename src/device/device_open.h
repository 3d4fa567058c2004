/* SPDX-License-Identifier: MIT */
/* Opening a device: a new context's segment, with what the context takes over from the device. */
#ifndef AV_DEVICE_DEVICE_OPEN_H
#define AV_DEVICE_DEVICE_OPEN_H

#include "device/device.h"
#include "segment/segment.h"

/*
 * Make the segment of a new context of this process, and the device's port if there is none; take
 * over the switches in force. @origin: context to import from, or 0. Closed by av_seg_close().
 * Context: the directory is joined. Return: the segment with one user, or NULL and errno
 */
struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin);

#endif
