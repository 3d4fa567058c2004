/* SPDX-License-Identifier: MIT */
/*
 * Bells: how one process makes a descriptor of another readable. Each is a FIFO in the folder of a context;
 * what is written are whole records, so that a bell is also the queue of what happened. The descriptor a
 * program polls (ibv_comp_channel.fd, ibv_context.async_fd) is the reading end.
 *
 * Why FIFOs: an eventfd cannot be reached from another process without its help, a datagram socket holds as
 * few as ten records; a FIFO holds 4096 of ours and needs nothing from its owner.
 */
#ifndef AV_HCA_BELL_H
#define AV_HCA_BELL_H

#include <stdint.h>

#include "base/compiler.h"
#include "hca/segment.h"

#define AV_BELL_ASYNC 0 /* the context's asynchronous events; completion channels are 1, 2, ... */

/* What a bell carries: 16 bytes, written and read whole (PIPE_BUF). */
struct av_bell_record {
	uint32_t event; /* AV_BELL_ASYNC: enum ibv_event_type; channels: 0 */
	uint32_t kind;	/* enum av_slab of the object it is about; AV_SLAB_N for a port or the device */
	uint32_t index; /* of the object in its table, or port number */
	uint32_t id;	/* QP number, or the CQ's generation: tells a later object of the same index apart */
};

/**
 * av_bell_create() - make bell @id of an own segment
 * Return: descriptor to read records from (close-on-exec, blocking), owned by the caller; or -errno
 */
AV_MUST_USE int av_bell_create(struct av_seg *seg, uint32_t id);

/* One more descriptor to read a bell of an own segment from, which does not block. Or -errno. */
AV_MUST_USE int av_bell_peek(struct av_seg *seg, uint32_t id);

/* Remove the name of a bell of an own segment; the caller closes its descriptor. */
void av_bell_remove(struct av_seg *seg, uint32_t id);

/**
 * av_bell_ring() - append a record to a bell, of this process or of a peer
 *
 * Never blocks. A record that does not fit is dropped: the descriptor is readable anyway.
 * Context: any thread, no lock of the data path held (it makes system calls, and wakes a sleeper: 7 us).
 * Return:  0, or -errno if nothing could be written
 */
int av_bell_ring(struct av_seg *seg, uint32_t id, const struct av_bell_record *record);

/* The same for a context that need not be mapped, by its reference. Opens and closes the FIFO: not for the
 * data path. */
int av_bell_ring_context(uint32_t ref, uint32_t id, const struct av_bell_record *record);

#endif
