/* SPDX-License-Identifier: MIT */
#include "memory/region_end.h"

#include "memory/adopt.h"
#include "memory/key.h"
#include "memory/linger.h"
#include "memory/recall.h"

/*
 * Can a copy by this key be kept from the program's memory? @at, @adopted: what has to linger for
 * that; 0: none
 */
static bool can_linger(struct av_seg *seg, const struct av_key *k, uint64_t *at, uint32_t *adopted)
{
	*at = *adopted = 0;
	switch ((enum av_key_kind)atomic_load(&k->kind)) {
	case AV_KEY_PAGES:
		*at = k->addr;
		return (uint32_t)k->intact == seg->ref && k->share == 0;
	case AV_KEY_REGION:
		*adopted = k->adopted;
		return !k->adopted || av_adopt_replaceable(seg, k, at);
	case AV_KEY_ODP:
		return true;
	default:
		return false;
	}
}

static bool linger(struct av_seg *seg, uint32_t key)
{
	uint32_t adopted;
	uint64_t at;

	if (!can_linger(seg, av_key_entry(seg, key), &at, &adopted) ||
	    !av_linger_begin(seg, key, at, adopted))
		return false;
	av_recall(seg, key);
	return true;
}

int av_region_end(struct av_seg *seg, uint32_t key)
{
	return av_key_destroy(seg, key, linger);
}
