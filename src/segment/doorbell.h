/* SPDX-License-Identifier: MIT */
/*
 * Doorbells: how one process makes a file descriptor of another one readable (ibv_comp_channel.fd,
 * ibv_context.async_fd). Each is a FIFO in the folder of a context, and the queue of what happened.
 *
 * Why FIFOs: another process cannot get at an eventfd without help from its owner, and a datagram
 * socket may hold only ten records. A FIFO holds 4096 of ours, is enlarged up to 65536 when it is
 * full, and needs nothing from its owner.
 */
#ifndef AV_SEGMENT_DOORBELL_H
#define AV_SEGMENT_DOORBELL_H

#include <assert.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "segment/segment.h"

#define AV_DOORBELL_ASYNC 0 /* asynchronous events; completion channels are 1, 2, ... */

/* 16 bytes, written and read as a whole (PIPE_BUF). */
struct av_doorbell_record {
	uint32_t event; /* AV_DOORBELL_ASYNC: enum ibv_event_type; channels: 0 */
	uint32_t kind;	/* enum av_slab of the object; AV_SLAB_N: port or device */
	uint32_t index; /* of the object in its table, or the port number */
	uint32_t id;	/* QP number or CQ generation: the index may be reused */
};

/* As much as a FIFO is enlarged to, without privileges: a record for each CQ that there can be. */
#define AV_DOORBELL_BYTES (1 << 20)
static_assert(AV_DOORBELL_BYTES / sizeof(struct av_doorbell_record) > AV_MAX_CQ, "records");

/* Make a doorbell. Return: descriptor to read from (blocking), owned by the caller; or -errno. */
AV_MUST_USE int av_doorbell_create(struct av_seg *seg, uint32_t id);

/* Open it for reading once more, non-blocking. Return: descriptor or -errno. */
AV_MUST_USE int av_doorbell_peek(struct av_seg *seg, uint32_t id);

/* Remove its name. The caller closes its descriptor. */
void av_doorbell_remove(struct av_seg *seg, uint32_t id);

/*
 * Append a record to a doorbell of any process. If the FIFO is full and cannot be enlarged, the
 * record is dropped: the descriptor is readable anyway.
 * Context: any thread; never blocks; no lock of the data path held: system calls, and waking a
 * sleeper takes 7 us, or the core.
 * Return: 0, or -errno if nothing could be written
 */
int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record);

/* The same for a context that need not be mapped; not for the data path. */
int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record);

#endif
