/* SPDX-License-Identifier: MIT */
/* Finding ODP regions by the bits beside their counters. */
#include "memory/odp_region.h"

#include "base/checked.h"
#include "memory/key.h"
#include "memory/region_count.h"

#define WHOLE_SPACE (1ull << 47) /* longer than any ordinary region */

/* The entry may change meanwhile; the result is only statistics. */
AV_RACY static bool read_region(const struct av_seg *seg, uint32_t index,
				struct av_odp_region *region)
{
	const struct av_key *k = av_key_entry(seg, index << 8);
	uint32_t key = k ? atomic_load(&k->held) : 0;

	if (!key || atomic_load(&k->kind) != AV_KEY_ODP)
		return false;
	*region = (struct av_odp_region){key, k->addr, k->length, k->length >= WHOLE_SPACE};
	return true;
}

bool av_odp_region_next(const struct av_seg *seg, uint32_t *at, struct av_odp_region *region)
{
	uint32_t index;

	while ((index = av_region_count_on_demand(seg, *at)) != UINT32_MAX) {
		*at = index + 1;
		if (read_region(seg, index, region))
			return true;
	}
	return false;
}

void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n)
{
	struct av_odp_region r;
	uint32_t at = 0, key = 0;

	for (int i = 0; n && i < AV_ODP_REGION_LOOKS && av_odp_region_next(seg, &at, &r); i++) {
		if (!av_range_within(addr, 1, r.addr, r.length) || (key && r.whole))
			continue;
		key = r.key;
		if (!r.whole)
			break;
	}
	if (key)
		av_region_count(seg, key, which, n);
}
