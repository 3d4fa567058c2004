/* SPDX-License-Identifier: MIT */
/*
 * Staging buffers: where a sender leaves the bytes of a SEND for the receiver's ibv_poll_cq() to
 * place, in the receiver's segment. Two copies through memory that both map are faster than one
 * system call up to tens of kilobytes, and they need no permission to enter the other process.
 *
 * A message is a chain of buffers. Free ones form a stack (the one used last is in the cache), with
 * a count in its head against the ABA problem. A sender that dies between taking and handing over
 * loses its buffers until the receiver's context is closed: at most one message per death.
 */
#ifndef AV_QUEUE_STAGE_H
#define AV_QUEUE_STAGE_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_stage_take() - a chain of buffers for @bytes (> 0)
 * Return: the first buffer's index + 1, or 0 if there are not enough
 */
AV_MUST_USE uint32_t av_stage_take(struct av_seg *seg, uint64_t bytes);

/* Give a chain back; 0 is ignored. @bytes as it was taken. */
void av_stage_give(struct av_seg *seg, uint32_t first, uint64_t bytes);

/* The memory of buffer @link (index + 1), AV_STAGE_BYTES long; NULL if there is no such buffer. */
void *av_stage_buffer(struct av_seg *seg, uint32_t link);

/* The next buffer's link in a chain. */
uint32_t av_stage_next(struct av_seg *seg, uint32_t link);

#endif
