/* SPDX-License-Identifier: MIT */
/*
 * The only way from keys to bytes: which bytes do a key, an address, a length, the access wanted
 * and the protection domain name? No other file compares addresses with regions.
 */
#ifndef AV_MEMORY_TRANSLATE_H
#define AV_MEMORY_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/key.h"
#include "memory/shared_region.h"
#include "observe/check.h"
#include "segment/file_view.h"
#include "segment/segment.h"

struct av_mem_request {
	uint32_t key;	 /* host order */
	uint32_t pd;	 /* protection domain in force, in the key's context */
	uint32_t access; /* enum ibv_access_flags needed: 0 for local reads */
	uint32_t qpn;	 /* the owner's queue pair, for windows that are bound to one */
	bool payload;	 /* the access stores the payload of an RDMA WRITE: see AV_CHECK_TUNNELED */
	bool remote;   /* the key is used as an rkey: windows are accepted and null regions are not;
			  as an lkey, the reverse */
	uint64_t addr; /* in the key's own address space */
	uint64_t length; /* bytes, > 0 */
	bool whole;	 /* all that the key names; @addr and @length are ignored */
};

struct av_odp_message;

/* A run of bytes that may be accessed until av_pin_end(). */
struct av_span {
	void *local;   /* address in this process; NULL: the bytes are in the other process */
	uint64_t addr; /* virtual address in the owner's process */
	uint64_t length;
	bool odp;	      /* paged in on demand: an access may raise a page fault event */
	bool null;	      /* no bytes: reads return zeros, writes vanish */
	bool writes;	      /* of a UMR span: the access changes the bytes */
	struct av_seg *seg;   /* the context they belong to; borrowed */
	uint32_t pages_owner; /* of pages: the context whose segment holds them */
	uint64_t offset; /* their offset there, by which atomics lock them whichever key names them;
			    else 0 */
	struct av_pin *pin; /* keeps the key alive; NULL for bytes behind no key */
	/*
	 * Not NULL: a span behind this UMR key, which consists of pieces behind other keys
	 * (memory/klm.h). Then @addr is in this key's address space.
	 */
	const struct av_key *umr;
	/*
	 * Not NULL: the bytes are a part of this message. Set of @odp and @umr spans only; see
	 * av_spans_are_part().
	 */
	struct av_odp_message *message;
};

/* A scatter/gather list, translated. */
struct av_spans {
	uint32_t count, refused;	   /* @refused: see av_mem_get_list() */
	uint64_t bytes;			   /* sum of the lengths */
	struct av_span at[AV_MAX_SGE + 1]; /* one more, for a header in front of a list */
};

/*
 * Address in this process of bytes of a region on a peer's heap, or on files; NULL: not there. A
 * peer's segment may hold anything and change at any time, so each word is read once and checked:
 * what is aligned there is aligned here. Context: a pin keeps the key alive.
 */
static inline void *av_heap_part_at(struct av_seg *seg, uint32_t id, uint64_t addr, uint64_t len)
{
	const struct av_heap_part *part =
		av_seg_at(seg, (uint64_t)id << AV_HEAP_PART_SHIFT, sizeof(*part));
	uint64_t at = part ? atomic_load_explicit(&part->at, memory_order_relaxed) : 0;
	uint64_t first, bytes;
	uint8_t *heap;

	if (!at)
		return NULL;
	if (av_unlikely(at == AV_FILE_RUN))
		return av_file_view_at(seg, (uint64_t)id << AV_HEAP_PART_SHIFT, addr, len);
	first = __atomic_load_n(&part->addr, __ATOMIC_RELAXED);
	bytes = __atomic_load_n(&part->bytes, __ATOMIC_RELAXED);
	if ((at ^ first) & (AV_HEAP_PART_ALIGN - 1) || !av_range_within(addr, len, first, bytes) ||
	    !av_range_within(at, bytes, AV_HEAP_PART_BASE, AV_SHARED_HEAP_BYTES))
		return NULL;
	heap = atomic_load_explicit(&seg->shared_heap, memory_order_acquire);
	if (av_unlikely(!heap))
		heap = av_seg_map_shared_heap(seg);
	return heap == AV_SHARED_HEAP_NOWHERE ? NULL
					      : heap + (at - AV_HEAP_PART_BASE) + (addr - first);
}

/*
 * The common case: registered memory of the program, still mapped, whose pages do not move.
 * Context: a pin names the key.
 * Return:  true: @span is set. False: av_mem_get_any() finds out what the key is, or what is wrong
 */
static inline bool av_mem_is_plain(struct av_seg *seg, const struct av_key *k,
				   const struct av_mem_request *req, struct av_span *span)
{
	uint64_t at;

	if (av_unlikely(atomic_load_explicit(&k->key, memory_order_acquire) != req->key ||
			atomic_load_explicit(&k->kind, memory_order_relaxed) != AV_KEY_REGION ||
			k->pd != req->pd || req->whole ||
			(k->access & (req->access | AV_ACCESS_TUNNELED)) != req->access ||
			!av_range_within(req->addr, req->length, k->base, k->length)))
		return false;
	if (av_unlikely(atomic_load_explicit(&seg->head->moving, memory_order_relaxed) ||
			atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) !=
				atomic_load_explicit(&k->intact, memory_order_relaxed)))
		return false;
	at = k->addr + (req->addr - k->base);
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
	return true;
}

/* The general case of av_mem_get(). @pin: already begun; NULL: not yet */
AV_MUST_USE enum av_check av_mem_get_any(struct av_seg *seg, const struct av_mem_request *req,
					 struct av_span *span, struct av_pin *pin);

/**
 * av_mem_get() - translate one keyed range
 * @seg:  the context of the key, own or a peer's
 * @span: out; on AV_CHECK_NONE it pins the key until av_pin_end(). Deregistration waits for the
 * pin, so hold it for one transfer only. Behind a UMR key all pieces have been checked, unless the
 * access is a FLUSH.
 *
 * Context: any thread; does not wait; touches none of the program's memory.
 * Return:  AV_CHECK_NONE, or what refuses it, for av_mr_explain() (memory/mr_explain.h);
 * AV_CHECK_BUSY; AV_CHECK_TUNNELED, if @req->payload Source:  IBTA volume 1, 10.6.3 (memory access
 * checks); ibv_reg_mr(3).
 */
AV_MUST_USE static inline enum av_check
av_mem_get(struct av_seg *seg, const struct av_mem_request *req, struct av_span *span)
{
	const struct av_key *k = av_key_entry(seg, req->key);

	if (av_unlikely(!k || req->key == 0 || seg->head->origin))
		return av_mem_get_any(seg, req, span, NULL);
	span->pin = av_pin_begin(seg, req->key);
	if (av_likely(span->pin && av_mem_is_plain(seg, k, req, span)))
		return AV_CHECK_NONE;
	return span->pin ? av_mem_get_any(seg, req, span, span->pin) : AV_CHECK_BUSY;
}

/*
 * For memory/klm.c: the context whose table holds this key of @seg. For an imported key, that
 * is its origin. NULL: it is gone.
 */
struct av_seg *av_mem_key_owner(struct av_seg *seg, uint32_t key);

/**
 * av_mem_resolve() - translate one step, for a key that the caller has pinned
 * @seg:  av_mem_key_owner() of the key
 * @span: out; holds no pin, and may be behind a UMR key
 */
AV_MUST_USE enum av_check av_mem_resolve(struct av_seg *seg, const struct av_mem_request *req,
					 struct av_span *span);

/**
 * av_mem_get_list() - translate a scatter/gather list, up to @bytes of it
 * @sge, @count: the list; elements of length 0, and those beyond @bytes, are skipped unchecked
 * @spans: out; on AV_CHECK_NONE give it to av_mem_put_list(). Else nothing is held: @refused is the
 * element that is refused, and @bytes what was wanted from there on
 *
 * Context: as av_mem_get().
 * Return:  as av_mem_get(); AV_CHECK_KEY_LIST: the list is shorter than @bytes
 */
AV_MUST_USE enum av_check av_mem_get_list(struct av_seg *seg, uint32_t pd, uint32_t access,
					  const struct ibv_sge *sge, uint32_t count, uint64_t bytes,
					  struct av_spans *spans);
void av_mem_put_list(struct av_spans *spans);

/* A list of one run of bytes, behind no key, at @local in this process. */
static inline void av_spans_local(struct av_spans *spans, struct av_seg *seg, void *local,
				  uint64_t bytes)
{
	spans->count = 1;
	spans->bytes = bytes;
	spans->at[0] = (struct av_span){.local = local, .length = bytes, .seg = seg};
}

/* A list that borrows the spans of another. It is not put. */
static inline void av_spans_copy(struct av_spans *to, const struct av_spans *from)
{
	to->count = from->count;
	to->bytes = from->bytes;
	for (uint32_t i = 0; i < from->count; i++)
		to->at[i] = from->at[i];
}

/* Drop the first @bytes of a borrowed list. Nothing is put. */
void av_spans_skip(struct av_spans *spans, uint64_t bytes);

/* The list has bytes of a message that goes, or comes, in several packets. */
void av_spans_are_part(struct av_spans *spans, struct av_odp_message *message);

#endif
