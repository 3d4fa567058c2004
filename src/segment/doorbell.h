/* SPDX-License-Identifier: MIT */
/*
 * Doorbells: how one process makes a descriptor of another readable. Each is a FIFO in the folder
 * of a context; what is written are whole records, so that a doorbell is also the queue of what
 * happened. The descriptor a program polls (ibv_comp_channel.fd, ibv_context.async_fd) is the
 * reading end.
 *
 * Why FIFOs: an eventfd cannot be reached from another process without its help, a datagram socket
 * holds as few as ten records; a FIFO holds 4096 of ours and needs nothing from its owner.
 */
#ifndef AV_SEGMENT_DOORBELL_H
#define AV_SEGMENT_DOORBELL_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* The context's asynchronous events; completion channels are 1, 2, ... */
#define AV_DOORBELL_ASYNC 0

/* What a doorbell carries: 16 bytes, written and read whole (PIPE_BUF). */
struct av_doorbell_record {
	uint32_t event; /* AV_DOORBELL_ASYNC: enum ibv_event_type; channels: 0 */
	uint32_t kind; /* enum av_slab of the object it is about; AV_SLAB_N for a port or the device
			*/
	uint32_t index; /* of the object in its table, or port number */
	uint32_t id;	/* QP number, or the CQ's generation: tells a later object of the same index
			   apart */
};

/**
 * av_doorbell_create() - make doorbell @id of an own segment
 * Return: descriptor to read records from (close-on-exec, blocking), owned by the caller; or -errno
 */
AV_MUST_USE int av_doorbell_create(struct av_seg *seg, uint32_t id);

/* One more descriptor to read a doorbell of an own segment from, which does not block. Or -errno.
 */
AV_MUST_USE int av_doorbell_peek(struct av_seg *seg, uint32_t id);

/* Remove the name of a doorbell of an own segment; the caller closes its descriptor. */
void av_doorbell_remove(struct av_seg *seg, uint32_t id);

/**
 * av_doorbell_ring() - append a record to a doorbell, of this process or of a peer
 *
 * Never blocks. A record that does not fit is dropped: the descriptor is readable anyway.
 * Context: any thread, no lock of the data path held (it makes system calls, and wakes a sleeper: 7
 * us). Return:  0, or -errno if nothing could be written
 */
int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record);

/* The same for a context that need not be mapped, by its reference. Opens and closes the FIFO: not
 * for the data path. */
int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record);

#endif
