/* SPDX-License-Identifier: MIT */
/*
 * The captures that are going on: which traffic is written to which file. In the directory, since a
 * request may be executed by another process than the one that posted it, and it is the executor
 * who writes.
 *
 * A capture is of one process' contexts, or of all processes'; of one device, or of all. It ends
 * when it is ended, or with the process that began it, however that ends.
 *
 * Thread-safety: beginning and ending are changes of the directory; everything else is lock-free.
 * The directory is joined.
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
 * Contexts do not look at their requests for it before av_capture_watch()
 * (segment/capture_watch.h). Return: its number (> 0), or -ENOSPC
 */
AV_MUST_USE int av_capture_begin(const struct av_capture_spec *spec);
void av_capture_end(unsigned int number);

/**
 * av_capture_find() - the captures that concern a context, one after another
 * @proc:   its process
 * @device: the name of its device; at most 64 bytes are looked at
 * @at:     in and out, 0 at first
 * Return: its number, or 0 after the last. Whether the process that began it still lives is asked
 * now and then.
 */
unsigned int av_capture_find(uint32_t proc, const char *device, unsigned int *at);

/* Which capture has that number now: differs for each that ever had it; 0: none. */
uint32_t av_capture_stamp(unsigned int number);

/* Has this process begun it, since it last joined the directory? */
bool av_capture_is_mine(unsigned int number, uint32_t stamp);

/* What it is. Return: false: it is over, or was another one than @stamp says */
bool av_capture_spec(unsigned int number, uint32_t stamp, struct av_capture_spec *spec);

/**
 * av_capture_take() - take the right to write @frames frames of the capture with that stamp
 * Return: how many may be written: fewer at the end. Each of them is to be settled, written or not.
 */
uint64_t av_capture_take(unsigned int number, uint32_t stamp, uint64_t frames);

/* They are in the file. */
void av_capture_written(unsigned int number, uint64_t frames);

/* They will not be: they are lost. */
void av_capture_untake(unsigned int number, uint64_t frames);

/* Nobody may take any more. What was taken before may still be on its way into the file. */
void av_capture_close(unsigned int number);

/* Nothing could be written, because of @err: nobody tries any more. */
void av_capture_stop(unsigned int number, int err);

/* Frames that were not written although they should have been, and were not taken. */
void av_capture_lost(unsigned int number, uint64_t frames);

struct av_capture_state {
	uint64_t frames, lost;
	int err;      /* not 0: it has stopped because of that, */
	bool over;    /* or because it has all the frames it wants, or is closed */
	bool settled; /* no frame that is counted is still to be written */
};
struct av_capture_state av_capture_state(unsigned int number);

#endif
