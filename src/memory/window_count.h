/* SPDX-License-Identifier: MIT */
/*
 * How many windows are bound to a region?
 *
 * Each is counted before it is bound, and discounted after it is unbound. So whoever dies in
 * between leaves the count too high, never too low: a region whose count is 0 has no windows, and
 * the owner of one whose count is not has the windows themselves counted.
 */
#ifndef AV_MEMORY_WINDOW_COUNT_H
#define AV_MEMORY_WINDOW_COUNT_H

#include <stdint.h>

#include "base/compiler.h"
#include "memory/key.h"
#include "segment/segment.h"

/* Set while the windows are being counted, cleared by whoever changes the count meanwhile. */
#define AV_WINDOWS_COUNTING (1u << 31)

static inline uint32_t av_window_count(const struct av_key *region)
{
	return region->windows & ~AV_WINDOWS_COUNTING;
}

/* A window is about to be bound. Context: the region's lock is held. */
static inline void av_window_count_more(struct av_key *region)
{
	region->windows = av_window_count(region) + 1;
}

/* One has been unbound from that region. Context: the window's lock is held. */
void av_window_count_less(struct av_seg *seg, uint32_t region);

/*
 * Count the windows of an own region. Context: one thread per region, no lock held; waits
 * AV_PATIENCE_NS at most for those who are binding windows.
 * Return: are there none? false also if they change all the time, or one is not had in time
 */
AV_MUST_USE bool av_window_none_bound(struct av_seg *seg, uint32_t region);

#endif
