/* SPDX-License-Identifier: MIT */
/*
 * The files of captures that this process has open. Frames are collected in batches, and a batch is
 * appended at once. Nothing here fails for the caller: what cannot be written is counted, and a
 * full disk ends the capture.
 *
 * Thread-safety: any number of batches at a time; one mutex is held while a batch is being written.
 */
#ifndef AV_TRANSPORT_CAPTURE_FILE_H
#define AV_TRANSPORT_CAPTURE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "net/net.h"
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

/*
 * Room for the next frame, of at most AV_FRAME_MAX bytes. May write the batch. NULL: nothing can be
 * written
 */
uint8_t *av_capture_batch_room(struct av_capture_batch *b);

/* The frame is in its room: add it to the batch, cut to the capture's snap length. */
void av_capture_batch_add(struct av_capture_batch *b, struct av_pcapng_frame *frame);

/* Write what the batch holds. */
void av_capture_batch_end(struct av_capture_batch *b);

/* Close the files of captures that are over. */
void av_capture_files_tidy(void);

/* Captures of packets on the wire: as they were sent, and as they came. */

/*
 * Write them to the captures that cover this process and the device; packets for none of its queue
 * pairs to all that cover the process. Context: as struct av_net_receiver's @seen; waits for files;
 * keeps errno
 */
void av_capture_seen(const struct av_net_seen *seen);

#endif
