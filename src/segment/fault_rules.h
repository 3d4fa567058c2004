/* SPDX-License-Identifier: MIT */
/*
 * Where a context's rules of faults come from, and how it hears that they have changed.
 *
 *   ANYVERBS_FAULTS                  of the process, read when it opens its first context
 *   BASE/anyverbs-UID.faults.DEVICE  of a device, BASE being where the directory is
 *(registry/folder.h); "anyverbs faults" writes it, and it holds until it is cleared
 *
 * A context that has rules is watched (AV_WATCHED_FAULTS). Whoever changes those of a device marks
 *all its contexts and counts up @faults_change in their segments; each looks at its next request,
 *verb or timer.
 */
#ifndef AV_SEGMENT_FAULT_RULES_H
#define AV_SEGMENT_FAULT_RULES_H

#include "segment/segment.h"
#include "observe/faults.h"

/* The rules for a new context of this process. Without memory for them there are none. Context:
 * any. */
void av_faults_attach(struct av_seg *seg);
void av_faults_detach(struct av_seg *seg);

/* Is there anything to ask? One load. */
static inline bool av_faults_watched(const struct av_seg *seg)
{
	return av_unlikely(atomic_load_explicit(&seg->head->watched, memory_order_relaxed) &
			   AV_WATCHED_FAULTS);
}

/**
 * av_faults_of() - the rules in force for an own context, read anew if they have changed
 * Return: NULL: there are none. Context: any thread; may read files. Valid as long as the segment.
 */
struct av_faults *av_faults_of(struct av_seg *seg);

/* Does the next taking of memory of that own segment fail? For the allocators; changes no errno. */
AV_MUST_USE bool av_faults_no_memory(struct av_seg *seg);

/**
 * av_faults_write() - replace the rules of a device, and tell its contexts
 * @text: understood by av_faults_parse(); "": none
 * @told: out, contexts
 *
 * Context: the directory is joined; no lock held. Return: 0 or -errno of writing
 */
AV_MUST_USE int av_faults_write(const char *device, const char *text, unsigned int *told);

/* The rules of a device as they were written; false: there are none. Needs no join. */
AV_MUST_USE bool av_faults_read(const char *device, char text[AV_FAULTS_BYTES]);

#endif
