/* SPDX-License-Identifier: MIT */
/* The kinds of keys, a row for each. A plain region is found before this: av_mem_is_plain(). */

#include "memory/odp.h"
#include "memory/region.h"

/* --- where the bytes are --------------------------------------------------------- */

/* The region of a key: its own, or that of a window. */
static const struct av_key *region_of(const struct av_seg *seg, const struct av_key *k)
{
	return k->kind == AV_KEY_WINDOW ? av_key_entry(seg, k->region) : k;
}

/* Address here of a peer's plain memory that is on its shared heap; NULL: it is not. */
static void *heap_at(struct av_seg *seg, const struct av_key *k, uint64_t at, uint64_t len)
{
	const struct av_key *region = region_of(seg, k);

	if (!region || region->kind != AV_KEY_REGION || av_likely(!region->heap))
		return NULL;
	return av_heap_part_at(seg, region->heap, at, len);
}

static enum av_check locate_program(struct av_seg *seg, const struct av_key *k,
				    struct av_span *span)
{
	if (av_unlikely(atomic_load(&seg->head->moving)) && av_seg_alive(seg))
		return AV_CHECK_BUSY;
	span->local = seg->own ? (void *)(uintptr_t)span->addr
			       : heap_at(seg, k, span->addr, span->length);
	return AV_CHECK_NONE;
}

static enum av_check locate_region(struct av_seg *seg, struct av_key *k,
				   const struct av_mem_request *req, struct av_span *span)
{
	enum av_check found = locate_program(seg, k, span);

	return found == AV_CHECK_NONE &&
			       av_unlikely(!av_still_mapped(seg, k, span->addr, req->length))
		       ? AV_CHECK_KEY_UNMAPPED
		       : found;
}

static enum av_check locate_odp(struct av_seg *seg, struct av_key *k,
				const struct av_mem_request *req, struct av_span *span)
{
	span->odp = av_odp_has_table(seg);
	return locate_program(seg, k, span);
}

/* Through this process's mapping of the segment, if it can be mapped. */
static enum av_check locate_pages(struct av_seg *seg, struct av_key *k,
				  const struct av_mem_request *req, struct av_span *span)
{
	uint32_t pages_owner = (uint32_t)atomic_load_explicit(&k->intact, memory_order_relaxed);
	const struct av_key *region;
	uint8_t *base;

	if (!av_range_within(span->addr, span->length, sizeof(struct av_seg_head),
			     AV_HEAP_END - sizeof(struct av_seg_head)))
		return AV_CHECK_MEMORY_FAULT; /* a peer's table is inconsistent */
	span->pages_owner = pages_owner;
	span->offset = span->addr;
	base = av_likely(pages_owner == seg->ref) ? (uint8_t *)seg->head
						  : av_pages_owner_base(seg, pages_owner);
	if (base) {
		span->local = base + span->offset;
		return AV_CHECK_NONE;
	}
	/* Where the program of the key's owner has the pages mapped. */
	region = region_of(seg, k);
	span->addr = region ? region->base + (span->offset - region->addr) : 0;
	return AV_CHECK_NONE;
}

static enum av_check locate_device(struct av_seg *seg, struct av_key *k,
				   const struct av_mem_request *req, struct av_span *span)
{
	if (!av_range_within(span->addr, span->length, sizeof(struct av_seg_head),
			     AV_SEG_BYTES - sizeof(struct av_seg_head)))
		return AV_CHECK_MEMORY_FAULT; /* a peer's table is inconsistent */
	if (k->in_origin)
		seg = av_seg_origin(seg);
	if (!seg)
		return AV_CHECK_MEMORY_FAULT;
	/* One name for the bytes, whichever key names them: atomics lock by it. */
	span->seg = seg;
	span->local = (uint8_t *)seg->head + span->addr;
	return AV_CHECK_NONE;
}

static enum av_check locate_null(struct av_seg *seg, struct av_key *k,
				 const struct av_mem_request *req, struct av_span *span)
{
	span->null = true;
	return AV_CHECK_NONE;
}

static enum av_check locate_umr(struct av_seg *seg, struct av_key *k,
				const struct av_mem_request *req, struct av_span *span)
{
	const uint32_t writers =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	span->umr = k;
	span->addr = req->whole ? k->base : req->addr;
	span->writes = req->access & writers;
	return AV_CHECK_NONE;
}

/* A peer has changed the kind since it was checked. */
static enum av_check locate_nothing(struct av_seg *seg, struct av_key *k,
				    const struct av_mem_request *req, struct av_span *span)
{
	return AV_CHECK_MEMORY_FAULT;
}

/* --- what stays while a peer is stopped in a copy -------------------------------- */

static bool defer_nothing(struct av_seg *seg, const struct av_key *k, uint64_t *leads_to)
{
	*leads_to = 0;
	return true;
}

/* The program has other pages then: av_heap_region_end() */
static bool defer_region(struct av_seg *seg, const struct av_key *k, uint64_t *leads_to)
{
	*leads_to = (uint64_t)k->heap << AV_HEAP_PART_SHIFT;
	return !k->heap || (!av_file_region_is(seg, k->heap) && av_mm_quiesce_allowed());
}

static bool defer_memory(struct av_seg *seg, const struct av_key *k, uint64_t *leads_to)
{
	*leads_to = k->addr;
	return true;
}

/* Not those that other processes have. */
static bool defer_pages(struct av_seg *seg, const struct av_key *k, uint64_t *leads_to)
{
	*leads_to = k->addr;
	return (uint32_t)k->intact == seg->ref && k->share == 0;
}

/* --- the rows -------------------------------------------------------------------- */

static void count_odp_not_found(struct av_seg *seg)
{
	if (av_odp_has_table(seg))
		av_odp_count(seg, AV_ODP_COUNT_MRS_NOT_FOUND, 1);
}

#define MEMORY	  (AV_KIND_LOCAL | AV_KIND_REMOTE | AV_KIND_BOUNDED)
#define NOT_SHOWN AV_REGION_MEMORY_N

static const struct av_kind rows[] = {
	[AV_KEY_NONE] = {0, NOT_SHOWN, locate_nothing, NULL, NULL},
	[AV_KEY_REGION] = {MEMORY | AV_KIND_PROGRAM | AV_KIND_BINDABLE, AV_REGION_PLAIN,
			   locate_region, defer_region, NULL},
	[AV_KEY_ODP] = {MEMORY | AV_KIND_PROGRAM | AV_KIND_BINDABLE, AV_REGION_ON_DEMAND,
			locate_odp, defer_nothing, count_odp_not_found},
	[AV_KEY_DEVICE] = {MEMORY, AV_REGION_DEVICE, locate_device, defer_memory, NULL},
	[AV_KEY_NULL] = {AV_KIND_LOCAL, AV_REGION_NULL, locate_null, defer_nothing, NULL},
	[AV_KEY_DM_BLOCK] = {0, NOT_SHOWN, locate_nothing, NULL, NULL},
	[AV_KEY_PAGES] = {MEMORY | AV_KIND_BINDABLE, AV_REGION_PAGES, locate_pages, defer_pages,
			  NULL},
	[AV_KEY_MAPPED] = {0, AV_REGION_MAPPED, locate_nothing, NULL, NULL},
	[AV_KEY_UMR] = {MEMORY | AV_KIND_REPLACED, NOT_SHOWN, locate_umr, defer_memory, NULL},
	[AV_KEY_WINDOW] = {AV_KIND_REMOTE | AV_KIND_BOUNDED, NOT_SHOWN, locate_nothing, NULL, NULL},
};

const struct av_kind *av_kind_of(uint8_t kind)
{
	return &rows[kind < AV_ARRAY_SIZE(rows) ? kind : AV_KEY_NONE];
}
