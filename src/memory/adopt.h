/* SPDX-License-Identifier: MIT */
/*
 * Adoption: whole pages of the program's private memory move into its context's segment, and are
 * mapped back at the same address. Then every process that maps the segment reaches them by plain
 * loads and stores. The pages move back when the last region on them ends, and before a fork().
 * docs/ADOPTION.md says what it takes that the program sees no difference.
 */
#ifndef AV_MEMORY_ADOPT_H
#define AV_MEMORY_ADOPT_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"

struct av_key;

/*
 * Adopt the whole pages of a range that is being registered, if that pays. Memory that is already
 * adopted gets one more user. The range is not yet faulted in for this registration, and is watched
 * afterwards.
 * Context: any thread of the owner; no lock or pin held; blocks.
 * @why: AV_KEY_PINNED or AV_KEY_SPECIAL is added if it was left alone for that: others write there;
 * it is special (memory/special.h), or a userfaultfd of the program's own serves it
 * Return: the key's field @adopted, to be ended by av_adopt_end(); 0: left alone
 */
uint32_t av_adopt(struct av_seg *seg, uint64_t addr, uint64_t length, uint8_t *why);

/* A region on adopted pages has ended, or has left them. Nobody uses its key. 0 is ignored. */
void av_adopt_end(struct av_seg *seg, uint32_t adopted);

/*
 * Can the program have other pages in the place of those behind this key, while a peer copies to
 * the old ones? @at: out, the block they are; 0: they are the program's own already
 */
AV_MUST_USE bool av_adopt_replaceable(struct av_seg *seg, const struct av_key *k, uint64_t *at);

/*
 * The program is about to make memory special (memory/special.h): what is adopted of it moves back
 * before, as far as it may, and so does what was born shared.
 * Context: any thread, which may hold locks of an allocator, and is not cancelled in here.
 */
void av_adopt_leave(uint64_t addr, uint64_t bytes);

/*
 * The context is being closed, unused: move back what it has adopted. What has to stay is one more
 * user of the segment, until the pages may move or the process ends.
 */
void av_adopt_close(struct av_seg *seg);

#endif
