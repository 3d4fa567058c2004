/* SPDX-License-Identifier: MIT */
/*
 * Adoption: whole pages of the program's private memory move into its context's segment, and are
 * mapped back at the same address. Every process that maps the segment then reaches them by plain
 * loads and stores.
 *
 * What the program sees stays as it was; see docs/ADOPTION.md for what that takes, and for the
 * kinds of memory that are left alone. The pages move back when the last region on them ends, and
 * before a fork().
 */
#ifndef AV_MEMORY_ADOPT_H
#define AV_MEMORY_ADOPT_H

#include <stdint.h>

#include "segment/segment.h"

/**
 * av_adopt() - have the whole pages of a range that is being registered adopted
 *
 * Once more for memory that is adopted already holds that. The range has not been brought in for
 * this registration yet, and is watched afterwards. Context: any thread of the owner; no lock or
 * pin held; blocks. Return: what goes into the key (struct av_key, @adopted), to be ended by
 * av_adopt_end(); 0: left alone
 */
uint32_t av_adopt(struct av_seg *seg, uint64_t addr, uint64_t length);

/* A region on them has ended, or no longer is on them: nobody uses its key. 0 is ignored. */
void av_adopt_end(struct av_seg *seg, uint32_t adopted);

/* The context is being closed: what it has adopted goes back. No access to it is under way any
 * more. */
void av_adopt_close(struct av_seg *seg);

#endif
