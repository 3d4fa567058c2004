/* SPDX-License-Identifier: MIT */
/*
 * Which contexts inspect each of their requests: those that a capture covers, and those with fault
 * rules. The functions set and clear these flags of a segment, and load and write fault rules.
 */
#pragma once

#include "observe/faults.h"
#include "registry/capture_table.h"
#include "segment/segment.h"

/*
 * A context with the flag AV_OBSERVER_CAPTURE inspects each of its requests: a capture
 * (registry/capture_table.h) may cover it. Any thread calls these, in the directory.
 */

/* Set or clear every context's flag, after a capture has begun. Maps segments, so it may block. */
void av_capture_observe(void);

void av_capture_observe_context(struct av_seg *seg);

/* Clear the flag: the caller found no capture. Keeps it if a capture has begun meanwhile. */
void av_capture_unobserve_context(struct av_seg *seg);

/* av_capture_find() for the process and the device of a context. */
unsigned int av_capture_next(const struct av_seg *seg, unsigned int *at);

/*
 * Fault rules of a context: those of ANYVERBS_FAULTS, which its process reads when it opens its
 * first context, and the device's, in BASE/anyverbs-UID.faults.DEVICE (BASE: av_folder_base()).
 *
 * A context with rules has the flag AV_OBSERVER_FAULTS. Whoever changes the rules of a device
 * increments @faults_change in all contexts of the device, sets the flag, and calls their processes
 * (av_seg_call()). Each context reloads its rules at its next request, verb or timer.
 *
 * Context, unless a function says otherwise: any thread; may read files.
 */

/* Load the rules for a new context of this process (none without memory), and free them. */
void av_faults_attach(struct av_seg *seg);
void av_faults_detach(struct av_seg *seg);

/* May this context have rules? Costs one load. */
static inline bool av_faults_observed(const struct av_seg *seg)
{
	return av_unlikely(atomic_load_explicit(&seg->head->observers, memory_order_relaxed) &
			   AV_OBSERVER_FAULTS);
}

/* The rules of an own context, reloaded if they have changed. NULL: no memory. Keeps errno. */
struct av_faults *av_faults_of(struct av_seg *seg);

/*
 * The rules of a device without a context. av_faults_there(): may there be any?
 * av_faults_refresh(): load those of @f's device, if they have changed. Both keep errno.
 */
AV_MUST_USE bool av_faults_there(const char *device);
void av_faults_refresh(struct av_faults *f);

/*
 * Replace the rules of a device by @text (av_faults_parse(); "": none), and notify its contexts;
 * @told: out: how many. Context: the process has joined the directory; the caller holds no lock.
 * May block: changes the directory, and maps segments.
 * Return: 0; -EBUSY: others hold the change lock; other -errno: the file cannot be written
 */
AV_MUST_USE int av_faults_write(const char *device, const char *text, unsigned int *told);

/* Read the rules of a device as written, joined or not. Return: false: the device has none */
AV_MUST_USE bool av_faults_read(const char *device, char text[AV_FAULTS_BYTES]);
