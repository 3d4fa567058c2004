/* SPDX-License-Identifier: MIT */
/*
 * The files of captures, as this process has them open: frames are collected in batches, and
 * appended a batch at a time. Nothing here fails for the caller: what cannot be written is counted,
 * and a capture whose disk is full is over.
 *
 * Thread-safety: any number of batches at a time; one mutex is held while a batch is being written.
 */
#ifndef AV_TRANSPORT_CAPTURE_FILE_H
#define AV_TRANSPORT_CAPTURE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/pcapng.h"

struct av_capture_batch {
	unsigned int number; /* of the capture: registry/capture_table.h */
	uint32_t stamp, snaplen;
	uint8_t *blocks; /* NULL: nothing can be written */
	size_t used;
	uint64_t frames;
};

/* Begin a batch for a capture. */
void av_capture_batch_begin(struct av_capture_batch *b, unsigned int number);

/* Room for the next frame, of at most AV_FRAME_MAX bytes; NULL: nothing can be written. May write
 * what there is. */
uint8_t *av_capture_batch_room(struct av_capture_batch *b);

/* The frame is there: count it in. It is cut to what the capture wants. */
void av_capture_batch_add(struct av_capture_batch *b, struct av_pcapng_frame *frame);

/* Write what there is. */
void av_capture_batch_end(struct av_capture_batch *b);

/* Close the files of captures that are over. */
void av_capture_files_tidy(void);

#endif
