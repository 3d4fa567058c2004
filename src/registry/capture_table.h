/* SPDX-License-Identifier: MIT */
/*
 * The running captures: which traffic is written to which file.
 *
 * They are in the directory because the executor of a request writes its frames, and that may be
 * another process than the one that posted it.
 *
 * A capture covers the contexts of one process or of all, and one device or all. It ends when
 * somebody ends it, or when the process that began it ends in any way.
 *
 * Context: the directory is joined. av_capture_begin() and av_capture_end() change the directory;
 * everything else is lock-free.
 */
#ifndef AV_REGISTRY_CAPTURE_TABLE_H
#define AV_REGISTRY_CAPTURE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "registry/capture_spec.h"

/**
 * av_capture_begin() - begin a capture, in the name of this process
 *
 * Contexts look at their requests for it only after av_capture_watch() (segment/capture_watch.h).
 * Return: its number (> 0), or -ENOSPC
 */
AV_MUST_USE int av_capture_begin(const struct av_capture_spec *spec);
void av_capture_end(unsigned int number);

/**
 * av_capture_find() - walk the captures that cover a context
 * @proc:   process of the context
 * @device: name of its device; at most 64 bytes are compared
 * @at:     in and out, 0 to begin
 *
 * Asks now and then whether the process that began a capture still lives, and skips those of the
 * dead.
 * Return: the number of the next capture, or 0 after the last
 */
unsigned int av_capture_find(uint32_t proc, const char *device, unsigned int *at);

/*
 * The stamp of the capture that has this number now: each capture has another one. 0: there is
 * none.
 */
uint32_t av_capture_stamp(unsigned int number);

/* Did this process begin the capture, since it last joined the directory? */
bool av_capture_is_mine(unsigned int number, uint32_t stamp);

/* Fill in @spec. Return: false if the capture is over or @stamp is that of another one. */
bool av_capture_spec(unsigned int number, uint32_t stamp, struct av_capture_spec *spec);

/**
 * av_capture_take() - reserve @frames frames of the capture with this stamp
 *
 * The caller must settle each of them: av_capture_written() or av_capture_untake().
 * Return: how many it may write; fewer than @frames at the end of the capture
 */
uint64_t av_capture_take(unsigned int number, uint32_t stamp, uint64_t frames);

/* @frames reserved frames are in the file. */
void av_capture_written(unsigned int number, uint64_t frames);

/* @frames reserved frames will not be written: they count as lost. */
void av_capture_untake(unsigned int number, uint64_t frames);

/*
 * Nobody can reserve frames any more. Those reserved before may still be on their way to the file.
 */
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
