/* SPDX-License-Identifier: MIT */
/*
 * Large copies: which of the guarded routines moves the bytes. Internal to base: everybody else
 * uses copy/copy.h.
 *
 * What is large enough gives up the order of its inner part for speed. The beginning up to a cache
 * line and the end, at least one byte and at most AV_RAW_LINES, are stored after one another as in
 * any copy, the end after everything else. Aligned words are whole in each of the ways. See
 * docs/COPY.md for the measurements.
 */
#ifndef AV_COPY_BULK_H
#define AV_COPY_BULK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* Below this ascending stores are as fast as anything. */
#define AV_BULK_MIN (16u << 10)

enum av_bulk_way {
	AV_BULK_ORDERED, /* ascending, the widest stores there are */
	AV_BULK_STRING,	 /* the processor's string instruction; both ends equally aligned within a
			    line */
	AV_BULK_STREAM,	 /* past the caches */
	AV_BULK_N,
};

/* Ask the processor what it has, once. Until then everything is ORDERED. Any thread, any number of
 * times. */
void av_bulk_init(void);

/* From how many bytes on copies are streamed; SIZE_MAX: never. */
size_t av_bulk_stream_min(void);

/* Can a copy of @len >= AV_BULK_MIN bytes go this way? Before av_bulk_init() only ORDERED can. */
bool av_bulk_possible(enum av_bulk_way way, const void *dst, const void *src, size_t len);

/* The best way for a copy of @len >= AV_BULK_MIN bytes. */
enum av_bulk_way av_bulk_choose(const void *dst, const void *src, size_t len);

/*
 * Copy @len >= AV_BULK_MIN bytes, by a way that is possible or by the best one. The caller has
 * asked av_fault_guard_ready(). Return: 0, or -1 at a fault; everything before the first byte that
 * could not be copied has been.
 */
AV_MUST_USE int av_bulk_copy_by(enum av_bulk_way way, void *dst, const void *src, size_t len);
AV_MUST_USE int av_bulk_copy(void *dst, const void *src, size_t len);

#endif
