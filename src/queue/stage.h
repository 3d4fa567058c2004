/* SPDX-License-Identifier: MIT */
/*
 * Staging buffers, in the receiver's segment. A sender leaves the bytes of a SEND there, and the
 * receiver's ibv_poll_cq() places them. Two copies through shared memory are faster than one system
 * call up to tens of kilobytes, and they need no permission to access the other process.
 *
 * A message is a chain of buffers. Free buffers form a stack, so that the next one is still cached;
 * a count in the stack's head prevents the ABA problem. A sender that dies between taking buffers
 * and handing them over loses them until the receiver's context is closed: at most one message per
 * death.
 */
#ifndef AV_QUEUE_STAGE_H
#define AV_QUEUE_STAGE_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_stage_take() - take a chain of buffers for @bytes (> 0)
 * Return:  the first buffer's index + 1, or 0 if there are not enough
 */
AV_MUST_USE uint32_t av_stage_take(struct av_seg *seg, uint64_t bytes);

/* Free a chain; 0 is ignored. @bytes: as it was taken */
void av_stage_give(struct av_seg *seg, uint32_t first, uint64_t bytes);

/* The memory of buffer @link (index + 1), AV_STAGE_BYTES long; NULL if there is no such buffer. */
void *av_stage_buffer(struct av_seg *seg, uint32_t link);

/* The next buffer's link in a chain; 0 behind the last. */
uint32_t av_stage_next(struct av_seg *seg, uint32_t link);

#endif
