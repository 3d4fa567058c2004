/* SPDX-License-Identifier: MIT */
/* The checks of a translation, in the specification's order: key, domain, access, range. */
#include "memory/translate.h"

#include "observe/freedom.h"

/* --- pins ------------------------------------------------------------------------ */

inline struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key)
{
	uint32_t place = av_pin_place;
	struct av_pin *pin = &seg->head->pin[place % AV_PINS];
	uint64_t free = 0, word = (uint64_t)av_lock_self << 32 | key;

	if (av_unlikely(place == 0 || atomic_load_explicit(&pin->word, memory_order_relaxed) ||
			!atomic_compare_exchange_strong(&pin->word, &free, word)))
		return av_pin_search(seg, word);
	av_barrier_behind_rmw(); /* before the key is looked at */
	return pin;
}

inline void av_pin_end(struct av_pin *pin)
{
	if (pin)
		atomic_store_explicit(&pin->word, 0, memory_order_release);
}

/* --- the checks ------------------------------------------------------------------- */

/* Accesses that move no byte, and may have any length. */
#define FLUSHES (AV_ACCESS_FLUSH_GLOBAL | AV_ACCESS_FLUSH_PERSISTENT)

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

static enum av_check check_key_access(const struct av_seg *seg, const struct av_key *k,
				      const struct av_mem_request *req)
{
	uint8_t is = av_kind_of(k->kind)->is;

	if (!(is & (AV_KIND_LOCAL | AV_KIND_REMOTE)))
		return classify_unknown_key(req);
	if (!(is & (req->remote ? AV_KIND_REMOTE : AV_KIND_LOCAL)))
		return req->remote			  ? AV_CHECK_KEY_IS_NULL
		       : k->window_type == AV_WINDOW_RKEY ? AV_CHECK_KEY_IS_RKEY
							  : AV_CHECK_KEY_IS_WINDOW;
	if (k->pd != req->pd)
		return AV_CHECK_KEY_PD;
	if (k->kind == AV_KEY_WINDOW && k->qpn && k->qpn != req->qpn)
		return AV_CHECK_KEY_WINDOW_QP;
	if ((k->access & req->access) != req->access)
		return req->remote && k->kind != AV_KEY_WINDOW &&
				       seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_KEYS)
			       ? AV_CHECK_KEY_IS_LKEY
			       : AV_CHECK_KEY_RIGHTS;
	if (av_unlikely(k->access & AV_ACCESS_TUNNELED) && req->payload)
		return AV_CHECK_TUNNELED;
	if ((is & AV_KIND_BOUNDED) && !req->whole &&
	    !av_range_within(req->addr, req->length, k->base, k->length))
		return req->addr < k->base ? AV_CHECK_KEY_BEFORE : AV_CHECK_KEY_BEHIND;
	return AV_CHECK_NONE;
}

/* Locate the bytes, as seen from this process. */
static enum av_check locate_span(struct av_seg *seg, struct av_key *k,
				 const struct av_mem_request *req, struct av_span *span)
{
	*span = (struct av_span){
		.addr = req->whole ? k->addr : k->addr + (req->addr - k->base),
		.length = req->whole ? k->length : req->length,
		.seg = seg,
	};
	return av_kind_of(k->kind == AV_KEY_WINDOW ? k->under : k->kind)->locate(seg, k, req, span);
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
	const struct av_kind *kind;

	if (av_likely(atomic_load_explicit(&k->key, memory_order_acquire) == req->key)) {
		enum av_check found = check_key_access(seg, k, req);

		return found == AV_CHECK_NONE ? locate_span(seg, k, req, span) : found;
	}
	kind = av_kind_of(k->kind);
	if (atomic_load(&k->held) == req->key && !(kind->is & AV_KIND_REPLACED) &&
	    av_seg_alive(seg))
		return AV_CHECK_BUSY; /* the region exists; its key is, or was, withdrawn */
	if (kind->not_found)
		kind->not_found(seg);
	return absent(seg, k, req);
}

enum av_check av_mem_resolve(struct av_seg *seg, const struct av_mem_request *req,
			     struct av_span *span)
{
	struct av_key *k = av_key_entry(seg, req->key);

	return k && req->key ? resolve_key_access(seg, k, req, span) : absent(seg, k, req);
}

/*
 * Does not wait for a region that is being re-registered: the caller may hold pins for which
 * another re-registration waits, and so on in a circle.
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

void *av_heap_part_at(struct av_seg *seg, uint32_t id, uint64_t addr, uint64_t len)
{
	const struct av_heap_part *part =
		av_seg_piece(seg, (uint64_t)id << AV_HEAP_PART_SHIFT, sizeof(*part));
	uint64_t at = part ? atomic_load_explicit(&part->at, memory_order_relaxed) : 0;
	uint64_t first, bytes, from;
	uint8_t *heap;

	if (!at)
		return NULL;
	if (av_unlikely(at == AV_FILE_RUN))
		return av_file_view_at(seg, (uint64_t)id << AV_HEAP_PART_SHIFT, addr, len);
	first = __atomic_load_n(&part->addr, __ATOMIC_RELAXED);
	bytes = __atomic_load_n(&part->bytes, __ATOMIC_RELAXED);
	from = at - AV_HEAP_PART_BASE;
	/* As offsets, of which none too small passes: no sum can wrap. */
	if ((at ^ first) & (AV_HEAP_PART_ALIGN - 1) || bytes > AV_SHARED_HEAP_BYTES ||
	    from > AV_SHARED_HEAP_BYTES - bytes || len > bytes || addr - first > bytes - len)
		return NULL;
	heap = atomic_load_explicit(&seg->shared_heap, memory_order_acquire);
	if (av_unlikely(!heap))
		heap = av_seg_map_shared_heap(seg);
	return heap == AV_SHARED_HEAP_NOWHERE ? NULL : heap + from + (addr - first);
}

enum av_check av_mem_get(struct av_seg *seg, const struct av_mem_request *req, struct av_span *span)
{
	const struct av_key *k = av_key_entry(seg, req->key);
	uint64_t offset, at;

	if (av_unlikely(!k || req->key == 0 || seg->head->origin))
		return av_mem_get_any(seg, req, span, NULL);
	span->pin = av_pin_begin(seg, req->key);
	if (av_unlikely(!span->pin))
		return AV_CHECK_BUSY;
	/* The common case: registered memory of the program, still mapped, while no pages move. */
	if (av_unlikely(atomic_load_explicit(&k->key, memory_order_acquire) != req->key ||
			atomic_load_explicit(&k->kind, memory_order_relaxed) != AV_KEY_REGION ||
			k->pd != req->pd || req->whole ||
			(k->access & (req->access | AV_ACCESS_TUNNELED)) != req->access))
		return av_mem_get_any(seg, req, span, span->pin);
	offset = req->addr - k->base; /* of what is before the region, more than its length */
	if (av_unlikely(offset > k->length || req->length > k->length - offset ||
			atomic_load_explicit(&seg->head->moving, memory_order_relaxed) ||
			atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) !=
				atomic_load_explicit(&k->intact, memory_order_relaxed)))
		return av_mem_get_any(seg, req, span, span->pin);
	at = k->addr + offset;
	if (av_likely(seg->own))
		span->local = (void *)(uintptr_t)at;
	else
		span->local = k->heap ? av_heap_part_at(seg, k->heap, at, req->length) : NULL;
	span->addr = at;
	span->length = req->length;
	span->odp = span->null = span->writes = false;
	span->seg = seg;
	span->pages_owner = 0;
	span->offset = 0;
	span->umr = NULL;
	return AV_CHECK_NONE;
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

/* --- lists of spans ---------------------------------------------------------------- */

void av_spans_local(struct av_spans *spans, struct av_seg *seg, void *local, uint64_t bytes)
{
	spans->count = 1;
	spans->bytes = bytes;
	spans->at[0] = (struct av_span){.local = local, .length = bytes, .seg = seg};
}

void av_spans_iovec(struct av_spans *spans, struct av_seg *seg, const struct iovec *run,
		    uint32_t count)
{
	spans->count = count;
	spans->bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		spans->at[i] = (struct av_span){
			.local = run[i].iov_base, .length = run[i].iov_len, .seg = seg};
		spans->bytes += run[i].iov_len;
	}
}

void av_spans_copy(struct av_spans *to, const struct av_spans *from)
{
	to->count = from->count;
	to->bytes = from->bytes;
	for (uint32_t i = 0; i < from->count; i++)
		to->at[i] = from->at[i];
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

enum av_fault av_xfer_copy(const struct av_spans *dst, const struct av_spans *src, uint64_t now_ns)
{
	const struct av_span *d = dst->at, *s = src->at;

	/* Here, and the destination does not begin within the source: an ascending copy is right.
	 */
	if (av_likely(dst->count == 1 && src->count == 1 && d->local && s->local && !d->odp &&
		      !s->odp && (uintptr_t)d->local - (uintptr_t)s->local >= dst->bytes &&
		      av_copy_at(d->local, s->local, dst->bytes, now_ns) == AV_COPY_OK))
		return AV_FAULT_NONE;
	/* Copies again, and finds out which end failed. */
	return av_xfer_copy_part(dst, src, dst->bytes, now_ns);
}
