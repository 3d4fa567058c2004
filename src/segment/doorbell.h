/* SPDX-License-Identifier: MIT */
/*
 * Doorbells: how one process makes a file descriptor of another one readable. Each is a FIFO in the
 * folder of a context. It carries whole records, so it is also the queue of what happened. Programs
 * poll the reading end (ibv_comp_channel.fd, ibv_context.async_fd).
 *
 * Why FIFOs: another process cannot get at an eventfd without help from its owner, and a datagram
 * socket may hold only ten records. A FIFO holds 4096 of ours and needs nothing from its owner.
 */
#ifndef AV_SEGMENT_DOORBELL_H
#define AV_SEGMENT_DOORBELL_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

#define AV_DOORBELL_ASYNC 0 /* asynchronous events; completion channels are 1, 2, ... */

/* What a doorbell carries: 16 bytes, written and read as a whole (PIPE_BUF). */
struct av_doorbell_record {
	uint32_t event; /* AV_DOORBELL_ASYNC: enum ibv_event_type; channels: 0 */
	uint32_t kind;	/* enum av_slab of the object; AV_SLAB_N: port or device */
	uint32_t index; /* of the object in its table, or the port number */
	uint32_t id;	/* QP number or CQ generation: the index may be reused */
};

/**
 * av_doorbell_create() - make doorbell @id of an own segment
 *
 * Return: descriptor to read records from (close-on-exec, blocking), owned by the caller; or -errno
 */
AV_MUST_USE int av_doorbell_create(struct av_seg *seg, uint32_t id);

/*
 * Open a doorbell of an own segment for reading once more, non-blocking. Return: descriptor or
 * -errno.
 */
AV_MUST_USE int av_doorbell_peek(struct av_seg *seg, uint32_t id);

/* Remove the name of a doorbell of an own segment. The caller closes its descriptor. */
void av_doorbell_remove(struct av_seg *seg, uint32_t id);

/**
 * av_doorbell_ring() - append a record to a doorbell, of this process or of a peer
 *
 * Never blocks. If the FIFO is full, the record is dropped: the descriptor is readable anyway.
 * Context: any thread; no lock of the data path held: system calls, and waking a sleeper takes 7 us
 * Return: 0, or -errno if nothing could be written
 */
int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record);

/*
 * The same for a context that need not be mapped, by its reference. Opens and closes the FIFO, so
 * it is not for the data path.
 */
int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record);

#endif
