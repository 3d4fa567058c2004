/* SPDX-License-Identifier: MIT */
/*
 * Regions of one context on pages of another: a shared region that was registered in a second process. The
 * first one's segment, the pages' home, is then reached by way of the second: its folder has another name of
 * the file, which stays when the first process has gone.
 */
#ifndef AV_HCA_HOME_H
#define AV_HCA_HOME_H

#include <stdint.h>

#include "base/compiler.h"
#include "hca/segment.h"

/**
 * av_home_hold() - one region more of an own segment is on pages of @home
 * @home: mapped; on success this takes a use of its own
 * Context: any thread; blocks. Return: 0 or ENOMEM (too many homes at a time)
 */
AV_MUST_USE int av_home_hold(struct av_seg *seg, struct av_seg *home);

/* One less. No key of it is in use any more. */
void av_home_drop(struct av_seg *seg, uint32_t ref);

/**
 * av_home_base() - where this process has that home of a segment's regions mapped
 *
 * Maps it if need be (a peer's segment: a few system calls, once). Context: any thread; the region's key is
 * kept alive by a hazard. Return: address of a mapping of AV_SEG_BYTES, or NULL: it cannot be had
 */
uint8_t *av_home_base(struct av_seg *seg, uint32_t ref);

/* The segment is not used any more: unmap. */
void av_home_forget(struct av_seg *seg);

#endif
