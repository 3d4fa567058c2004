/* SPDX-License-Identifier: MIT */
/*
 * The running captures: which traffic is written to which file. In the directory, because the
 * executor of a request writes its frames, perhaps another process than the one that posted it.
 *
 * A capture covers the contexts of one process or of all, and one device or all. It ends when
 * somebody ends it, or with the process that began it.
 *
 * Context: the directory is joined. Beginning and ending change it; everything else is lock-free.
 */
#ifndef AV_REGISTRY_CAPTURE_TABLE_H
#define AV_REGISTRY_CAPTURE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "registry/directory.h"

/* Contexts see it only after av_capture_watch(). Return: its number (> 0), or -ENOSPC. */
AV_MUST_USE int av_capture_begin(const struct av_capture_spec *spec);
void av_capture_end(unsigned int number);

/*
 * Walk the captures that cover a context: its process, its @device (at most 64 bytes are compared;
 * NULL: any).
 * @at: in and out, 0 to begin. Asks now and then whether those who began them live, and skips those
 * of the dead. Return: the number of the next capture, or 0 after the last.
 */
unsigned int av_capture_find(uint32_t proc, const char *device, unsigned int *at);

/* Does a capture cover this process? One load, if none was ever begun. */
static inline bool av_capture_is_on(void)
{
	unsigned int at = 0;

	return av_unlikely(atomic_load_explicit(&av_dir->capture_end, memory_order_relaxed)) &&
	       av_capture_find(av_lock_self, NULL, &at);
}

/* The stamp of the capture that has this number now: each has another one. 0: none. */
uint32_t av_capture_stamp(unsigned int number);

/* Did this process begin the capture, since it last joined the directory? */
bool av_capture_is_mine(unsigned int number, uint32_t stamp);

/* Fill in @spec. Return: false if the capture is over or @stamp is that of another one. */
bool av_capture_spec(unsigned int number, uint32_t stamp, struct av_capture_spec *spec);

/*
 * Reserve @frames frames of the capture with this stamp; each must be settled, by
 * av_capture_written() or av_capture_untake(). Return: how many may be written; fewer at the end.
 */
uint64_t av_capture_take(unsigned int number, uint32_t stamp, uint64_t frames);

/* @frames reserved frames are in the file. */
void av_capture_written(unsigned int number, uint64_t frames);

/* @frames reserved frames will not be written: they count as lost. */
void av_capture_untake(unsigned int number, uint64_t frames);

/* Nobody can reserve frames any more. Earlier ones may still be on their way to the file. */
void av_capture_close(unsigned int number);

/* Writing failed with @err: nobody tries any more. */
void av_capture_stop(unsigned int number, int err);

/* Count @frames frames as lost that were never reserved. */
void av_capture_lost(unsigned int number, uint64_t frames);

struct av_capture_state {
	uint64_t frames, lost;
	int err;      /* the error that stopped it, or 0 */
	bool over;    /* it failed, has all its frames or is closed */
	bool settled; /* no counted frame is still to be written */
};
struct av_capture_state av_capture_state(unsigned int number);

#endif
