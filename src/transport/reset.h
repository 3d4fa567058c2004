/* SPDX-License-Identifier: MIT */
/*
 * Reset a device: the switches that were set for its next boot (device/switches.h) take effect. As
 * with an adapter, a reset is refused while the device is in use, or fails every user.
 */
#ifndef AV_TRANSPORT_RESET_H
#define AV_TRANSPORT_RESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/**
 * av_device_reset() - reset a device
 * @force:  fail the open contexts first, as av_device_fatal() does; false: they prevent the reset
 * @pids:   out, the processes whose contexts these are, each once
 * @room:   how many fit into @pids
 * @count:  out, how many there are
 *
 * Contexts that had failed before do not count.
 * Context: the directory is joined; no execution right or lock held; with @force waits for requests
 * under way.
 * Return:  0; -EBUSY: the device is open and not @force, or is opened faster than it fails;
 * -ENOMEM; or another -errno: the switches could not be written down
 */
AV_MUST_USE int av_device_reset(const char *device, bool force, int32_t *pids, size_t room,
				size_t *count);

#endif
