/* SPDX-License-Identifier: MIT */
/* Publishing and killing keys. */
#include "memory/key.h"

#include <errno.h>
#include <time.h>

#include "memory/hazard.h"

static uint32_t next_tag(uint32_t tag, uint32_t index)
{
	uint32_t key;

	do {
		tag = (tag + 1) & 0xff;
		key = index << 8 | tag;
	} while (key == 0 || key == 0xffffffffu || key == 0xdeadbeefu);
	return tag;
}

/* A first tag that differs from context to context, so that a key of one is rarely a key of another. */
static uint32_t first_tag(const struct av_seg *seg, uint32_t index)
{
	return (seg->ref * 0x9e3779b1u ^ index * 0x85ebca6bu) >> 24;
}

uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_KEY, limit);
	struct av_key *k;
	uint32_t key;

	if (!index)
		return 0;
	k = av_key_entry(seg, index << 8);
	if (k->kind == AV_KEY_NONE)
		k->tag = first_tag(seg, index);
	k->tag = next_tag(k->tag, index);
	key = index << 8 | k->tag;
	k->pd = what->pd;
	k->access = what->access;
	k->kind = what->kind;
	k->base = what->base;
	k->length = what->length;
	k->addr = what->addr;
	atomic_store_explicit(&k->key, key, memory_order_release);
	return key;
}

void av_key_destroy(struct av_seg *seg, uint32_t key)
{
	atomic_store(&av_key_entry(seg, key)->key, 0);
	av_hazard_drain(seg, key);
	av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(key));
}
