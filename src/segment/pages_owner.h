/* SPDX-License-Identifier: MIT */
/*
 * Regions of one context on pages of another: shared regions that were registered in a second
 * process. Peers reach the segment of the first one, the owner of the pages, through the second: a
 * link to the file in its folder remains when the first process is gone.
 */
#ifndef AV_SEGMENT_PAGES_OWNER_H
#define AV_SEGMENT_PAGES_OWNER_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_pages_owner_hold() - count one more region of an own segment on pages of @pages_owner
 * @pages_owner: mapped; on success this takes a use of its own
 *
 * Context: any thread; blocks
 * Return: 0 or ENOMEM (also: too many owners of pages at a time)
 */
AV_MUST_USE int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner);

/* Count one region less. None of its keys may be in use any more. */
void av_pages_owner_drop(struct av_seg *seg, uint32_t ref);

/**
 * av_pages_owner_base() - where this process has mapped an owner of a segment's pages
 *
 * Maps a peer's segment if needed: a few system calls, once.
 * Context: any thread; a pin keeps the region's key alive
 * Return: address of a mapping of AV_SEG_BYTES, or NULL if that is not possible
 */
uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref);

/* Unmap the owners of a peer's segment that is no longer in use. */
void av_pages_owner_forget(struct av_seg *seg);

#endif
