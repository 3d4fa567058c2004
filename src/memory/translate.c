/* SPDX-License-Identifier: MIT */
/*
 * The checks of a translation, in the order of the specification: key, protection domain, access,
 * range.
 */
#include "memory/translate.h"

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "segment/pages.h"

/* Accesses that move no byte, and may have any length. */
#define FLUSHES (AV_ACCESS_FLUSH_GLOBAL | AV_ACCESS_FLUSH_PERSISTENT)
#define WRITERS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static enum av_check classify_unknown_key(const struct av_mem_request *req)
{
	return req->remote ? AV_CHECK_KEY_UNKNOWN : AV_CHECK_LKEY_UNKNOWN;
}

/* What became of a key that is not in its place @k. @seg, @k: NULL: there is no such place */
AV_COLD static enum av_check absent(const struct av_seg *seg, const struct av_key *k,
				    const struct av_mem_request *req)
{
	if (!seg || !av_key_was_given(seg, req->key))
		return classify_unknown_key(req);
	return k->kind == AV_KEY_WINDOW && atomic_load(&k->key) == 0 ? AV_CHECK_KEY_UNBOUND
								     : AV_CHECK_KEY_DEAD;
}

static enum av_check check_key_access(const struct av_key *k, const struct av_mem_request *req)
{
	bool only_remote = k->kind == AV_KEY_WINDOW, only_local = k->kind == AV_KEY_NULL;

	if (k->kind == AV_KEY_DM_BLOCK || k->kind == AV_KEY_MAPPED)
		return classify_unknown_key(req);
	if (req->remote ? only_local : only_remote)
		return only_local ? AV_CHECK_KEY_IS_NULL : AV_CHECK_KEY_IS_WINDOW;
	if (k->pd != req->pd)
		return AV_CHECK_KEY_PD;
	if (k->kind == AV_KEY_WINDOW && k->qpn && k->qpn != req->qpn)
		return AV_CHECK_KEY_WINDOW_QP;
	if ((k->access & req->access) != req->access)
		return AV_CHECK_KEY_RIGHTS;
	if (av_unlikely(k->access & AV_ACCESS_TUNNELED) && req->payload)
		return AV_CHECK_TUNNELED;
	if (k->kind != AV_KEY_NULL && !req->whole &&
	    !av_range_within(req->addr, req->length, k->base, k->length))
		return req->addr < k->base ? AV_CHECK_KEY_BEFORE : AV_CHECK_KEY_BEHIND;
	return AV_CHECK_NONE;
}

/*
 * Address at which the program of the key's owner has the pages mapped that are at offset @at of a
 * segment.
 */
static uint64_t get_program_addr(const struct av_seg *seg, const struct av_key *k, uint64_t at)
{
	const struct av_key *region = k->kind == AV_KEY_WINDOW ? av_key_entry(seg, k->region) : k;

	return region ? region->base + (at - region->addr) : 0;
}

/*
 * Locate library-allocated pages through this process's mapping of their segment, if it can be
 * mapped.
 */
static enum av_check locate_pages(struct av_seg *seg, const struct av_key *k, uint64_t at,
				  struct av_span *span)
{
	uint32_t pages_owner = (uint32_t)atomic_load_explicit(&k->intact, memory_order_relaxed);
	uint8_t *base;

	if (!av_range_within(at, span->length, sizeof(struct av_seg_head),
			     AV_HEAP_END - sizeof(struct av_seg_head)))
		return AV_CHECK_MEMORY_FAULT; /* a peer's table is inconsistent */
	span->pages_owner = pages_owner;
	span->offset = at;
	base = av_likely(pages_owner == seg->ref) ? (uint8_t *)seg->head
						  : av_pages_owner_base(seg, pages_owner);
	if (base)
		span->local = base + at;
	else
		span->addr = get_program_addr(seg, k, at);
	return AV_CHECK_NONE;
}

/* Address here of a peer's plain memory that is on its shared heap; NULL: it is not. */
static void *heap_at(struct av_seg *seg, const struct av_key *k, uint64_t at, uint64_t len)
{
	const struct av_key *region = k->kind == AV_KEY_WINDOW ? av_key_entry(seg, k->region) : k;

	if (!region || region->kind != AV_KEY_REGION || av_likely(!region->heap))
		return NULL;
	return av_heap_part_at(seg, region->heap, at, len);
}

/* Locate the bytes, as seen from this process. */
static enum av_check locate_span(struct av_seg *seg, struct av_key *k,
				 const struct av_mem_request *req, struct av_span *span)
{
	uint8_t kind = k->kind == AV_KEY_WINDOW ? k->under : k->kind;
	uint64_t at = req->whole ? k->addr : k->addr + (req->addr - k->base);

	span->length = req->whole ? k->length : req->length;
	span->seg = seg;
	span->null = kind == AV_KEY_NULL;
	span->odp = kind == AV_KEY_ODP && av_odp_has_table(seg);
	span->addr = at;
	span->local = NULL;
	span->pages_owner = 0;
	span->pin = NULL;
	span->umr = NULL;
	span->message = NULL;
	if (av_unlikely(kind == AV_KEY_UMR)) {
		span->umr = k;
		span->addr = req->whole ? k->base : req->addr;
		span->writes = req->access & WRITERS;
		return AV_CHECK_NONE;
	}
	if (kind == AV_KEY_REGION || kind == AV_KEY_ODP) {
		if (av_page_moving(seg))
			return AV_CHECK_BUSY;
		span->local = seg->own ? (void *)(uintptr_t)at : heap_at(seg, k, at, span->length);
	}
	if (kind == AV_KEY_REGION && av_unlikely(!av_still_mapped(seg, k, at, req->length)))
		return AV_CHECK_KEY_UNMAPPED;
	if (kind == AV_KEY_PAGES)
		return locate_pages(seg, k, at, span);
	if (kind == AV_KEY_DEVICE) {
		if (!av_range_within(at, span->length, sizeof(struct av_seg_head),
				     AV_SEG_BYTES - sizeof(struct av_seg_head)))
			return AV_CHECK_MEMORY_FAULT; /* a peer's table is inconsistent */
		if (k->in_origin)
			seg = av_seg_origin(seg);
		if (!seg)
			return AV_CHECK_MEMORY_FAULT;
		/* One name for the bytes, whichever key names them: atomics lock by it. */
		span->seg = seg;
		span->local = (uint8_t *)seg->head + at;
	}
	return AV_CHECK_NONE;
}

struct av_seg *av_mem_key_owner(struct av_seg *seg, uint32_t key)
{
	if (av_likely(!seg->head->origin) || AV_KEY_INDEX(key) >= AV_IMPORT_KEYS)
		return seg;
	return av_seg_origin(seg);
}

/* Context: a pin names the key. */
static enum av_check resolve_key_access(struct av_seg *seg, struct av_key *k,
					const struct av_mem_request *req, struct av_span *span)
{
	if (av_likely(atomic_load_explicit(&k->key, memory_order_acquire) == req->key)) {
		enum av_check found = check_key_access(k, req);

		return found == AV_CHECK_NONE ? locate_span(seg, k, req, span) : found;
	}
	if (atomic_load(&k->held) == req->key && k->kind != AV_KEY_UMR && av_seg_alive(seg))
		return AV_CHECK_BUSY; /* the region exists; its key is, or was, withdrawn */
	if (k->kind == AV_KEY_ODP && av_odp_has_table(seg))
		av_odp_count(seg, AV_ODP_COUNT_MRS_NOT_FOUND, 1);
	return absent(seg, k, req);
}

enum av_check av_mem_resolve(struct av_seg *seg, const struct av_mem_request *req,
			     struct av_span *span)
{
	struct av_key *k = av_key_entry(seg, req->key);

	return k && req->key ? resolve_key_access(seg, k, req, span) : absent(seg, k, req);
}

/*
 * Does not wait for a region that is being re-registered: the caller may hold pins on other keys,
 * for which another re-registration waits, and so on in a circle.
 */
enum av_check av_mem_get_any(struct av_seg *seg, const struct av_mem_request *req,
			     struct av_span *span, struct av_pin *pin)
{
	enum av_check found;
	struct av_key *k;

	seg = av_mem_key_owner(seg, req->key);
	k = seg ? av_key_entry(seg, req->key) : NULL;
	if (!k || req->key == 0)
		return absent(seg, k, req);
	if (!pin)
		pin = av_pin_begin(seg, req->key);
	if (av_unlikely(!pin))
		return AV_CHECK_BUSY;
	found = resolve_key_access(seg, k, req, span);
	if (found == AV_CHECK_NONE && av_unlikely(span->umr) && !(req->access & FLUSHES)) {
		found = av_klm_iter_check(span);
		if (found != AV_CHECK_NONE && found != AV_CHECK_BUSY)
			found = AV_CHECK_KEY_PIECE;
	}
	if (found == AV_CHECK_NONE)
		span->pin = pin;
	else
		av_pin_end(pin);
	return found;
}

/* Return: @found */
AV_COLD static enum av_check refuse_spans(struct av_spans *spans, uint32_t element, uint64_t left,
					  enum av_check found)
{
	av_mem_put_list(spans);
	spans->refused = element;
	spans->bytes = left;
	return found;
}

enum av_check av_mem_get_list(struct av_seg *seg, uint32_t pd, uint32_t access,
			      const struct ibv_sge *sge, uint32_t count, uint64_t bytes,
			      struct av_spans *spans)
{
	spans->count = 0;
	spans->bytes = bytes;
	if (av_unlikely(count > AV_MAX_SGE)) /* the count in a peer's segment has changed */
		return refuse_spans(spans, 0, bytes, AV_CHECK_KEY_LIST);
	for (uint32_t i = 0; i < count && bytes > 0; i++) {
		/* Read once: a list in a segment may change meanwhile. */
		uint32_t length = __atomic_load_n(&sge[i].length, __ATOMIC_RELAXED);
		struct av_mem_request req = {
			.key = __atomic_load_n(&sge[i].lkey, __ATOMIC_RELAXED),
			.pd = pd,
			.access = access,
			.addr = __atomic_load_n(&sge[i].addr, __ATOMIC_RELAXED),
			.length = length < bytes ? length : bytes,
		};
		enum av_check found;

		if (req.length == 0)
			continue;
		found = av_mem_get(seg, &req, &spans->at[spans->count]);
		if (av_unlikely(found != AV_CHECK_NONE))
			return refuse_spans(spans, i, bytes, found);
		spans->count++;
		bytes -= req.length;
	}
	/* Else a list in a peer's segment is inconsistent. */
	return av_likely(bytes == 0) ? AV_CHECK_NONE
				     : refuse_spans(spans, count, bytes, AV_CHECK_KEY_LIST);
}

void av_mem_put_list(struct av_spans *spans)
{
	for (uint32_t i = 0; i < spans->count; i++)
		av_pin_end(spans->at[i].pin);
	spans->count = 0;
}

void av_spans_skip(struct av_spans *spans, uint64_t bytes)
{
	uint32_t gone = 0;

	spans->bytes -= bytes;
	while (gone < spans->count && bytes >= spans->at[gone].length)
		bytes -= spans->at[gone++].length;
	spans->count -= gone;
	for (uint32_t i = 0; i < spans->count; i++)
		spans->at[i] = spans->at[i + gone];
	if (spans->count == 0)
		return;
	if (spans->at[0].local)
		spans->at[0].local = (uint8_t *)spans->at[0].local + bytes;
	spans->at[0].addr += bytes;
	spans->at[0].length -= bytes;
}

void av_spans_are_part(struct av_spans *spans, struct av_odp_message *message)
{
	for (uint32_t i = 0; i < spans->count; i++)
		spans->at[i].message = message;
}
