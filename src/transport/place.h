/* SPDX-License-Identifier: MIT */
/*
 * Payload that comes with a completion: in its CQ entry, in the receive request's slot, or in
 * staging buffers. Whoever takes the completion places the payload.
 */
#ifndef AV_TRANSPORT_PLACE_H
#define AV_TRANSPORT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "queue/qp.h"

/* Everything that placing needs, copied out of shared memory. */
struct av_placement {
	struct av_cqe cqe;
	uint32_t pd;
	uint32_t count;
	struct ibv_sge sge[AV_MAX_SGE];
	uint8_t payload[AV_MAX_INLINE_RECV]; /* the payload from the request's slot */
};

/*
 * Copy the entry's payload to @place, which knows no buffers yet.
 * Context: poll_lock is held; the entry has payload.
 */
void av_place_keep(struct av_placement *place, const struct av_cqe *cqe);

/*
 * Free the slot of the completed request. The queue exists, since its completions are purged before
 * it is destroyed.
 * @place: out, the buffers for the payload; NULL: it has none
 * Context: poll_lock is held.
 */
void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place);

/**
 * av_place() - place the payload in @place, and release its staging buffers
 *
 * Context: owner's thread, no lock held; waits for pages.
 * Return:  false: the memory is gone
 */
AV_MUST_USE bool av_place(struct av_seg *seg, struct av_placement *place);

/*
 * Release what the entry of a receive holds that found no room in its CQ: place its payload as far
 * as this process reaches the buffers, give back staging buffers and the receive request's slot.
 * Context: any process; the right of the queue pair under which the entry was made is held.
 */
void av_place_lost(struct av_seg *seg, const struct av_cqe *cqe);

#endif
