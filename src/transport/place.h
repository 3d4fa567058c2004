/* SPDX-License-Identifier: MIT */
/*
 * Payload that a completion brings along, or has beside it: in the entry, in the receive request's
 * slot, or in staging buffers. Whoever takes the completion places it.
 */
#ifndef AV_TRANSPORT_PLACE_H
#define AV_TRANSPORT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "queue/qp.h"

/* All that placing needs, off shared memory. */
struct av_placement {
	struct av_cqe cqe;
	uint32_t pd;
	uint32_t count;
	struct ibv_sge sge[AV_MAX_SGE];
	uint8_t payload[AV_MAX_INLINE_RECV]; /* what was in the request's slot */
};

/* Is there payload to be placed? */
static inline bool av_place_wanted(const struct av_cqe *cqe)
{
	return cqe->data_len || cqe->stage || (cqe->flags & AV_CQE_IN_SLOT);
}

/* Keep what the entry has. Context: poll_lock is held, the entry has payload. */
void av_place_keep(struct av_placement *place, const struct av_cqe *cqe);

/*
 * Free the slot of the completed request. @place: out, where its payload belongs; NULL: it has
 * none. Context: poll_lock is held. The queue exists: its completions are purged before it goes.
 */
void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place);

/**
 * av_place() - place what was kept, and give staging buffers back
 * Context: owner's thread, no lock held; waits for pages.
 * Return:  false: the memory is not there any more
 */
AV_MUST_USE bool av_place(struct av_seg *seg, struct av_placement *place);

/**
 * av_place_answers() - place what waits for the poller of the queue pair's send CQ before it is
 * polled
 *
 * Answers to RDMA READs and atomics that other processes have left there.
 * Context: the owner's process; @exec of the queue pair is held, so that no more come; waits for
 * pollers that are placing some.
 * Return:  false: one could not be placed; its completion says so now
 */
AV_MUST_USE bool av_place_answers(const struct av_qp_end *end);

#endif
