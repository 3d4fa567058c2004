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
#ifndef AV_TRANSPORT_FATAL_H
#define AV_TRANSPORT_FATAL_H

#include <stdbool.h>

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

#endif
