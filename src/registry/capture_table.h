/* SPDX-License-Identifier: MIT */
/*
 * Running captures: the executor of a request writes its frames, and may be another process than
 * the poster. A capture ends when somebody ends it, or with the process that began it.
 *
 * Context: the process has joined the directory. av_capture_begin() changes it (-EBUSY: it timed
 * out); all other functions are lock-free.
 */
#pragma once

#include "registry/directory.h"

/* Begin a capture, unnoticed until av_capture_observe(). Return: its number (> 0); -ENOSPC; -EBUSY
 */
AV_MUST_USE int av_capture_begin(const struct av_capture_spec *spec);
void av_capture_end(unsigned int number);

/*
 * Walk the captures that cover a context: its process, and its @device (at most 64 bytes are
 * compared; NULL: any). Skips captures that are over, or whose process has died; asks the kernel
 * about a process every 100 ms at most. Return: the next capture's number; 0: no more
 */
unsigned int av_capture_find(uint32_t proc, const char *device, unsigned int *at);

/* Does a capture cover this process? One load, if nobody ever began a capture. */
static inline bool av_capture_is_on(void)
{
	unsigned int at = 0;

	return av_unlikely(atomic_load_explicit(&av_dir->capture_end, memory_order_relaxed)) &&
	       av_capture_find(av_lock_self, NULL, &at);
}

/* The stamp of the capture that has this number now. Each capture has another stamp. 0: none. */
uint32_t av_capture_stamp(unsigned int number);

/* Did this process begin the capture, since it last joined the directory? */
bool av_capture_is_mine(unsigned int number, uint32_t stamp);

/* Fill in @spec. Return: false: the capture is over, or @stamp is that of another one */
bool av_capture_spec(unsigned int number, uint32_t stamp, struct av_capture_spec *spec);

/*
 * Reserve @frames frames of the capture with this stamp, each to be settled by av_capture_written()
 * or av_capture_untake(). Return: how many the caller may write; fewer at the end of the capture
 */
uint64_t av_capture_take(unsigned int number, uint32_t stamp, uint64_t frames);

/* @frames reserved frames are in the file. */
void av_capture_written(unsigned int number, uint64_t frames);

/* The caller will not write @frames reserved frames. They count as lost. */
void av_capture_untake(unsigned int number, uint64_t frames);

/* From now on nobody can reserve frames. Frames reserved before may still be written. */
void av_capture_close(unsigned int number);

/* A write failed with @err. From now on nobody writes to the file. */
void av_capture_stop(unsigned int number, int err);

/* Count @frames frames as lost that nobody had reserved. */
void av_capture_lost(unsigned int number, uint64_t frames);

struct av_capture_state {
	uint64_t frames, lost;
	int err;      /* the error that stopped the capture, or 0 */
	bool over;    /* the capture failed, has all its frames, or is closed */
	bool settled; /* every counted frame is written or lost */
};
struct av_capture_state av_capture_state(unsigned int number);
