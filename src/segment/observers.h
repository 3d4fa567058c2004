/* SPDX-License-Identifier: MIT */
/* Who watches a context: captures and fault rules. */
#ifndef AV_SEGMENT_OBSERVERS_H
#define AV_SEGMENT_OBSERVERS_H

#include "observe/faults.h"
#include "registry/tables.h"
#include "segment/segment.h"

/*
 * Contexts look at each of their requests if a capture (registry/tables.h) may cover them:
 * then their segments have the flag AV_WATCHED_CAPTURE. Context: the directory is joined.
 */

/* Make all contexts check whether a capture covers them. */
void av_capture_watch(void);

void av_capture_watch_context(struct av_seg *seg);

/* The caller found no capture: clear the flag, unless one has begun meanwhile. */
void av_capture_unwatch_context(struct av_seg *seg);

/* av_capture_find() for a context. */
unsigned int av_capture_next(const struct av_seg *seg, unsigned int *at);

/*
 * Where the fault rules of a context come from, and how it notices that they have changed:
 *
 *   ANYVERBS_FAULTS                  of the process, read when it opens its first context
 *   BASE/anyverbs-UID.faults.DEVICE  of a device, until cleared ("anyverbs faults");
 *                                    BASE: av_folder_base()
 *
 * A context with rules is watched (AV_WATCHED_FAULTS). Whoever changes the rules of a device sets
 * this flag in all its contexts and increments @faults_change; each looks at its next request, verb
 * or timer.
 */

/* Load the rules for a new context of this process; none if memory is short. Any thread. */
void av_faults_attach(struct av_seg *seg);
void av_faults_detach(struct av_seg *seg);

/* May there be rules? Costs one load. */
static inline bool av_faults_watched(const struct av_seg *seg)
{
	return av_unlikely(atomic_load_explicit(&seg->head->watched, memory_order_relaxed) &
			   AV_WATCHED_FAULTS);
}

/*
 * The rules of an own context, reloaded if they have changed; NULL: none. Any thread; may read
 * files.
 */
struct av_faults *av_faults_of(struct av_seg *seg);

/* Shall the next allocation in this own segment fail? Called by the allocators. Keeps errno. */
AV_MUST_USE bool av_faults_no_memory(struct av_seg *seg);

/*
 * The rules of a device for who needs no context of it, the connection manager. av_faults_there():
 * may there be any? av_faults_refresh(): load them into @f, which is initialised, if they are
 * others than before. Context: any thread, one at a time for @f; read files, keep errno
 */
AV_MUST_USE bool av_faults_there(const char *device);
void av_faults_refresh(struct av_faults *f, const char *device);

/*
 * Replace the rules of a device by @text (av_faults_parse(); "": none) and tell its contexts.
 * @told: out, their number.
 * Context: the directory is joined; no lock held.
 * Return: 0, or -errno if the file cannot be written
 */
AV_MUST_USE int av_faults_write(const char *device, const char *text, unsigned int *told);

/* The rules of a device as they were written. Return: false: none. Needs no joining. */
AV_MUST_USE bool av_faults_read(const char *device, char text[AV_FAULTS_BYTES]);

#endif
