/* SPDX-License-Identifier: MIT */
/*
 * The short way from keys to bytes, for the regions that nearly every request uses: plain memory of
 * the process itself, or of another one but adopted (memory/adopted.h). Whatever else a key may stand
 * for, and whatever is not in order, is memory/translate.h's to find out: the answer here is "here
 * they are" or "look there".
 */
#ifndef AV_MEMORY_PLAIN_H
#define AV_MEMORY_PLAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "segment/segment.h"
#include "memory/adopted.h"
#include "memory/key.h"
#include "memory/unmapped.h"

/* Bytes that may be accessed as long as the key is kept alive. */
struct av_plain {
	bool found;	/* the key permits it. If not: memory/translate.h has to be asked */
	uint8_t *local; /* where this process finds them, NULL: nowhere */
	uint64_t addr;	/* where their owner does */
};

/**
 * av_plain_at() - the bytes of a key's range
 * @pd, @access: what the key has to permit; as in struct av_mem_request
 * @len: > 0
 *
 * Context: a pin names the key, and its barrier is behind the caller (memory/pin.h).
 */
static inline struct av_plain av_plain_at(struct av_seg *seg, uint32_t key, uint32_t pd,
					  uint32_t access, uint64_t addr, uint64_t len)
{
	const struct av_plain elsewhere = {0};
	struct av_key *k = av_key_entry(seg, key);
	struct av_plain at = {.found = true};

	if (av_unlikely(!k || key == 0 || seg->head->origin ||
			atomic_load_explicit(&k->key, memory_order_acquire) != key))
		return elsewhere;
	if (av_unlikely(atomic_load_explicit(&k->kind, memory_order_relaxed) != AV_KEY_REGION ||
			k->pd != pd || (k->access & (access | AV_ACCESS_TUNNELED)) != access ||
			!av_range_within(addr, len, k->base, k->length)))
		return elsewhere;
	if (av_unlikely(atomic_load_explicit(&seg->head->moving, memory_order_relaxed) ||
			atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) !=
				atomic_load_explicit(&k->intact, memory_order_relaxed)))
		return elsewhere;
	at.addr = k->addr + (addr - k->base);
	if (seg->own)
		at.local = (uint8_t *)(uintptr_t)at.addr;
	else
		at.local = k->adopted ? av_adopted_at(seg, k->adopted, at.addr, len) : NULL;
	return at;
}

#endif
