/* SPDX-License-Identifier: MIT */
/*
 * Where the fault rules of a context come from, and how it notices that they have changed:
 *
 *   ANYVERBS_FAULTS                  of the process, read when it opens its first context
 *   BASE/anyverbs-UID.faults.DEVICE  of a device, until they are cleared; "anyverbs faults"
 *                                    writes this file (BASE: av_folder_base())
 *
 * A context with rules is watched (AV_WATCHED_FAULTS). Whoever changes the rules of a device sets
 * this flag in all its contexts and increments @faults_change. Each context looks at its next
 * request, verb or timer.
 */
#ifndef AV_SEGMENT_FAULT_RULES_H
#define AV_SEGMENT_FAULT_RULES_H

#include "segment/segment.h"
#include "observe/faults.h"

/*
 * Load the rules for a new context of this process. There are none if memory is short. Context: any
 * thread.
 */
void av_faults_attach(struct av_seg *seg);
void av_faults_detach(struct av_seg *seg);

/* May there be rules? Costs one load. */
static inline bool av_faults_watched(const struct av_seg *seg)
{
	return av_unlikely(atomic_load_explicit(&seg->head->watched, memory_order_relaxed) &
			   AV_WATCHED_FAULTS);
}

/**
 * av_faults_of() - the rules of an own context; loaded again if they have changed
 *
 * Context: any thread; may read files
 * Return: the rules, valid as long as the segment; NULL if there are none
 */
struct av_faults *av_faults_of(struct av_seg *seg);

/* Shall the next allocation in this own segment fail? Called by the allocators. Keeps errno. */
AV_MUST_USE bool av_faults_no_memory(struct av_seg *seg);

/**
 * av_faults_write() - replace the rules of a device and tell its contexts
 * @text: in the language of av_faults_parse(); "": none
 * @told: out, number of contexts
 *
 * Context: the directory is joined; no lock held
 * Return: 0, or -errno if the file cannot be written
 */
AV_MUST_USE int av_faults_write(const char *device, const char *text, unsigned int *told);

/*
 * The rules of a device as they were written. Return: false if there are none. The directory need
 * not be joined.
 */
AV_MUST_USE bool av_faults_read(const char *device, char text[AV_FAULTS_BYTES]);

#endif
