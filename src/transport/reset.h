/* SPDX-License-Identifier: MIT */
/*
 * Resetting a device: the switches that were set for its next boot come into force
 * (device/switches.h). As with an adapter, that takes nobody who uses it, or everybody who does
 * down.
 */
#ifndef AV_TRANSPORT_RESET_H
#define AV_TRANSPORT_RESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/**
 * av_device_reset() - reset a device
 * @force:  contexts that are open fail first, as by av_device_fatal(); else they keep it from being
 * reset
 * @pids:   out, whose contexts these are, each process once; @room: how many fit
 * @count:  out, how many there are
 *
 * Contexts that have failed before do not count. Context: the directory is joined; no execution
 * right or lock held; with @force waits for requests under way. Return: 0; -EBUSY: it is open and
 * not @force, or is opened faster than it fails; -ENOMEM; or another -errno: what is in force could
 * not be written down
 */
AV_MUST_USE int av_device_reset(const char *device, bool force, int32_t *pids, size_t room,
				size_t *count);

#endif
