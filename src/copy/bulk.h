/* SPDX-License-Identifier: MIT */
/*
 * Large copies: chooses the guarded routine that moves the bytes. Internal to copy/.
 *
 * A large copy trades the order of its inner part for speed. Its beginning, up to a cache line, and
 * its end (1 to AV_RAW_LINES bytes) are still stored in order, the end after everything else. Every
 * routine keeps aligned words whole. docs/COPY.md has the measurements.
 */
#ifndef AV_COPY_BULK_H
#define AV_COPY_BULK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* Below this size, ascending stores are as fast as anything else. */
#define AV_BULK_MIN (16u << 10)

enum av_bulk_way {
	AV_BULK_ORDERED, /* ascending, with the widest stores available */
	AV_BULK_STRING,	 /* the processor's string instruction; both ends equally aligned within a
			    line */
	AV_BULK_STREAM,	 /* past the caches */
	AV_BULK_N,
};

/* Detect what the processor supports; before, every copy is ORDERED. Any thread. */
void av_bulk_init(void);

/* The size from which copies are streamed; SIZE_MAX: never. */
size_t av_bulk_stream_min(void);

/* Can a copy of @len >= AV_BULK_MIN bytes use this routine? */
bool av_bulk_possible(enum av_bulk_way way, const void *dst, const void *src, size_t len);

/* The best routine for a copy of @len >= AV_BULK_MIN bytes. */
enum av_bulk_way av_bulk_choose(const void *dst, const void *src, size_t len);

/*
 * Copy @len >= AV_BULK_MIN bytes, by a possible routine or by the best one. Faults of this thread
 * reach the handler. Return: 0, or -1 at a fault; all bytes before the first inaccessible one are
 * copied.
 */
AV_MUST_USE int av_bulk_copy_by(enum av_bulk_way way, void *dst, const void *src, size_t len);
AV_MUST_USE int av_bulk_copy(void *dst, const void *src, size_t len);

#endif
