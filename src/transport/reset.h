/* SPDX-License-Identifier: MIT */
/*
 * A device that fails on demand: what programs see of a fatal error of an adapter.
 *
 * In each context that is open, all queue pairs in use go to the error state and their requests are
 * flushed. Then IBV_EVENT_DEVICE_FATAL is raised, once, and the process is called (av_seg_call()):
 * its connection manager tells the device's ids. From then on verbs that need the device fail with
 * EIO. Completions can still be polled, requests posted (they are flushed), objects destroyed, and
 * the context closed. A context that is opened afterwards finds a working device, as after the
 * reset of an adapter.
 */
#ifndef AV_TRANSPORT_RESET_H
#define AV_TRANSPORT_RESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_device_fatal() - make a device fail, in all contexts of all processes that have it open
 *
 * Context: the directory is joined; no execution right or lock held; waits for requests under way.
 * Return:  number of contexts that failed; without those that had failed before
 */
unsigned int av_device_fatal(const char *device);

/*
 * The same in one open context, own or a peer's.
 * Context: as above.
 * Return:  has it failed now?
 */
bool av_context_fatal(struct av_seg *seg);

/*
 * Reset a device: the switches that were set for its next boot (device/switches.h) take effect. As
 * with an adapter, a reset is refused while the device is in use, or fails every user.
 */

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
