/* SPDX-License-Identifier: MIT */
/*
 * Regions of one context on pages of another: a shared region that was registered in a second
 * process. The first one's segment, the pages' pages_owner, is then reached by way of the second:
 * its folder has another name of the file, which stays when the first process has gone.
 */
#ifndef AV_SEGMENT_PAGES_OWNER_H
#define AV_SEGMENT_PAGES_OWNER_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_pages_owner_hold() - one region more of an own segment is on pages of @pages_owner
 * @pages_owner: mapped; on success this takes a use of its own
 * Context: any thread; blocks. Return: 0 or ENOMEM (too many pages owners at a time)
 */
AV_MUST_USE int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner);

/* One less. No key of it is in use any more. */
void av_pages_owner_drop(struct av_seg *seg, uint32_t ref);

/**
 * av_pages_owner_base() - where this process has that pages_owner of a segment's regions mapped
 *
 * Maps it if need be (a peer's segment: a few system calls, once). Context: any thread; the
 * region's key is kept alive by a pin. Return: address of a mapping of AV_SEG_BYTES, or NULL: it
 * cannot be had
 */
uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref);

/* The segment is not used any more: unmap. */
void av_pages_owner_forget(struct av_seg *seg);

#endif
