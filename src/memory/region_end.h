/* SPDX-License-Identifier: MIT */
/* The end and the change of a region, whatever its peers are doing, or have left when they died. */
#ifndef AV_MEMORY_REGION_END_H
#define AV_MEMORY_REGION_END_H

#include <stdint.h>

#include "base/compiler.h"
#include "memory/key.h"
#include "segment/segment.h"

/*
 * End the key and its uses, or, if a peer is stopped in one, those that lead to the program's
 * memory (memory/linger.h, memory/recall.h). Context: the owner; no lock held; waits for copies
 * under way. Return: as av_key_destroy(); ETIMEDOUT only if it cannot linger
 */
AV_MUST_USE int av_region_end(struct av_seg *seg, uint32_t key);

/* Replace its fields. Context, return: as av_key_change() */
AV_MUST_USE int av_region_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

#endif
