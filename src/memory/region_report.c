/* SPDX-License-Identifier: MIT */
#include "memory/region_report.h"

#include "memory/allocated.h"
#include "memory/key.h"
#include "memory/odp_table.h"
#include "memory/odp_uffd.h"
#include "memory/region_count.h"
#include "memory/shared_region.h"
#include "memory/window.h"
#include "segment/pages.h"
#include "segment/segment_view.h"

static const struct {
	uint8_t kind;
	enum av_region_memory memory;
} kinds[] = {
	{AV_KEY_REGION, AV_REGION_PLAIN},  {AV_KEY_ODP, AV_REGION_ON_DEMAND},
	{AV_KEY_DEVICE, AV_REGION_DEVICE}, {AV_KEY_NULL, AV_REGION_NULL},
	{AV_KEY_PAGES, AV_REGION_PAGES},   {AV_KEY_MAPPED, AV_REGION_MAPPED},
};

const char *av_region_memory_name(enum av_region_memory memory)
{
	static const char *const names[AV_REGION_MEMORY_N] = {
		[AV_REGION_PLAIN] = "plain",	     [AV_REGION_SHARED] = "shared",
		[AV_REGION_ON_DEMAND] = "on-demand", [AV_REGION_DEVICE] = "device",
		[AV_REGION_NULL] = "null",	     [AV_REGION_PAGES] = "pages",
		[AV_REGION_PRIVATE] = "private",     [AV_REGION_MAPPED] = "mapped",
		[AV_REGION_EARLY] = "early",
	};

	return names[memory];
}

/* The part of plain memory that peers map, in bytes. */
static uint64_t count_shared_bytes(const struct av_seg *seg, const struct av_key *k)
{
	const struct av_heap_part *part =
		k->heap ? av_seg_at(seg, (uint64_t)k->heap << AV_HEAP_PART_SHIFT, sizeof(*part))
			: NULL;
	uint64_t first, end;

	if (!part || !atomic_load(&part->at))
		return 0;
	first = part->addr > k->addr ? part->addr : k->addr;
	end = part->addr + part->bytes;
	end = end < k->addr + k->length ? end : k->addr + k->length;
	return end > first ? end - first : 0;
}

static bool classify_region_memory(const struct av_seg *seg, const struct av_key *k,
				   enum av_region_memory *memory)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(kinds); i++) {
		if (kinds[i].kind != k->kind)
			continue;
		*memory = kinds[i].memory;
		if (k->kind == AV_KEY_REGION && (k->share & AV_KEY_PRIVATE))
			*memory = AV_REGION_PRIVATE;
		else if (k->kind == AV_KEY_REGION && count_shared_bytes(seg, k))
			*memory = AV_REGION_SHARED;
		else if (k->kind == AV_KEY_REGION && (k->share & AV_KEY_EARLY))
			*memory = AV_REGION_EARLY;
		return true;
	}
	return false;
}

static void fill_pages(const struct av_key *k, struct av_region_info *info)
{
	uint64_t what = atomic_load(&k->intact),
		 bytes = k->length ? av_round_up(k->length, AV_PAGE_BYTES) : 0;
	uint32_t pages = (uint32_t)(what >> 32);

	if (info->memory == AV_REGION_PRIVATE && (k->share & AV_KEY_HUGETLB)) {
		info->huge = (bytes + AV_HUGE_PAGE_BYTES - 1) / AV_HUGE_PAGE_BYTES;
		info->type = AV_ALLOC_HUGE;
		return;
	}
	if (info->memory == AV_REGION_PRIVATE) {
		info->small = bytes / AV_PAGE_BYTES;
		info->type = AV_ALLOC_ANON;
		return;
	}
	info->type = pages & ((1u << AV_KEY_HUGE_SHIFT) - 1);
	info->huge = pages >> AV_KEY_HUGE_SHIFT;
	if (bytes > info->huge * AV_HUGE_PAGE_BYTES)
		info->small = (bytes - info->huge * AV_HUGE_PAGE_BYTES) / AV_PAGE_BYTES;
	info->shared = k->share & (AV_SHARED | AV_SHARE_SECOND);
	info->writable = k->share & AV_SHARE_WRITE;
	info->second = k->share & AV_SHARE_SECOND;
}

static void fill_counted(const struct av_seg *seg, const struct av_key *k,
			 struct av_region_info *info)
{
	av_region_counted(seg, info->key, info->counted);
	info->counted[AV_MR_WINDOWS] = av_window_count(k);
	if (info->memory == AV_REGION_SHARED)
		info->counted[AV_MR_SHARED_BYTES] = count_shared_bytes(seg, k);
	if (info->memory == AV_REGION_ON_DEMAND)
		info->counted[AV_MR_VALID_PAGES] = av_odp_valid(seg, k->addr, k->length);
}

/* Return: false if the entry is not a region, or changed meanwhile. */
static bool read_region_info(const struct av_seg *seg, const struct av_key *k,
			     struct av_region_info *info)
{
	uint32_t key = atomic_load(&k->key);

	*info = (struct av_region_info){
		.pid = seg->head->pid,
		.context = seg->head->ref,
		.pd = k->pd,
		.key = key,
		.addr = k->base,
		.length = k->length,
	};
	if (key == 0 || !classify_region_memory(seg, k, &info->memory))
		return false;
	if (info->memory >= AV_REGION_PAGES)
		fill_pages(k, info);
	fill_counted(seg, k, info);
	return atomic_load(&k->key) == key;
}

void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg)
{
	for (uint32_t index = 0; index < AV_SLAB_CHUNKS * AV_KEY_CHUNK; index++) {
		const struct av_key *k = av_key_entry(seg, index << 8);
		struct av_region_info info;

		if (!k)
			index += AV_KEY_CHUNK - 1; /* skip the whole chunk */
		else if (read_region_info(seg, k, &info))
			visit(&info, arg);
	}
}

struct each {
	void (*visit)(const struct av_region_info *info, void *arg);
	void *arg;
};

static void regions_of(const struct av_seg *seg, void *arg)
{
	const struct each *each = arg;

	av_odp_settle_to_read(seg);
	av_region_report_of(seg, each->visit, each->arg);
}

void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg)
{
	av_seg_view_each(device, regions_of, &(struct each){visit, arg});
}
