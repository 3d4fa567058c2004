/* SPDX-License-Identifier: MIT */
#include "memory/region_end.h"

#include "memory/adopt.h"
#include "memory/key.h"
#include "memory/linger.h"

/* The block behind the key, if a copy to it reaches nothing else once the region has ended. */
static uint64_t block_of(struct av_seg *seg, const struct av_key *k)
{
	if (k->kind == AV_KEY_PAGES)
		return (uint32_t)k->intact == seg->ref && k->share == 0 ? k->addr : 0;
	return k->kind == AV_KEY_REGION && k->adopted ? av_adopt_replaceable(seg, k) : 0;
}

static bool linger(struct av_seg *seg, uint32_t key)
{
	const struct av_key *k = av_key_entry(seg, key);
	uint64_t at = block_of(seg, k);

	return at && av_linger_begin(seg, key, at, k->kind == AV_KEY_REGION ? k->adopted : 0);
}

int av_region_end(struct av_seg *seg, uint32_t key)
{
	return av_key_destroy(seg, key, linger);
}
