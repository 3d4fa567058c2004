/* SPDX-License-Identifier: MIT */
/*
 * A device that fails, on demand: what programs see of a fatal error of an adapter.
 *
 * In each context that is open now: all queue pairs that are in use go to the error state and their
 * requests are flushed; then IBV_EVENT_DEVICE_FATAL is raised, once. From then on verbs that need
 * the device fail with EIO. Completions can be polled, requests posted (they are flushed), objects
 * destroyed, and the context closed. One that is opened afterwards finds a device that works, as
 * after the reset of an adapter.
 */
#ifndef AV_TRANSPORT_FATAL_H
#define AV_TRANSPORT_FATAL_H

#include <stdbool.h>

#include "segment/segment.h"

/**
 * av_device_fatal() - let a device fail, in all contexts of all processes that have it open
 *
 * Context: the directory is joined; no execution right or lock held; waits for requests under way.
 * Return: number of contexts that failed; those that had failed before do not count
 */
unsigned int av_device_fatal(const char *device);

/* The same in one context, own or a peer's, that is open. Return: has it failed now? Context: as
 * above. */
bool av_context_fatal(struct av_seg *seg);

#endif
