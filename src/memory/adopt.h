/* SPDX-License-Identifier: MIT */
/*
 * Adoption: whole pages of the program's private memory move into its context's segment, and are
 * mapped back at the same address. Then every process that maps the segment reaches them by plain
 * loads and stores.
 *
 * The program sees no difference. docs/ADOPTION.md says what that takes, and which kinds of memory
 * are left alone. The pages move back when the last region on them ends, and before a fork().
 */
#ifndef AV_MEMORY_ADOPT_H
#define AV_MEMORY_ADOPT_H

#include <stdint.h>

#include "segment/segment.h"

/**
 * av_adopt() - adopt the whole pages of a range that is being registered, if that pays
 *
 * Memory that is already adopted gets one more user. The range has not been faulted in for this
 * registration yet, and is watched afterwards.
 * Context: any thread of the owner; no lock or pin held; blocks.
 * Return:  the key's field @adopted (struct av_key), to be ended by av_adopt_end(); 0: left alone
 */
uint32_t av_adopt(struct av_seg *seg, uint64_t addr, uint64_t length);

/* A region on adopted pages has ended, or has left them. Nobody uses its key. 0 is ignored. */
void av_adopt_end(struct av_seg *seg, uint32_t adopted);

/*
 * The context is being closed: move back what it has adopted.
 * Context: no access to it is under way.
 */
void av_adopt_close(struct av_seg *seg);

#endif
