/* SPDX-License-Identifier: MIT */
/*
 * The one door from keys to bytes: given a key, an address, a length, the access wanted and the
 * protection domain, which bytes are these? No other file compares addresses with regions.
 */
#ifndef AV_MEMORY_TRANSLATE_H
#define AV_MEMORY_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "segment/segment.h"
#include "memory/adopted.h"
#include "memory/key.h"
#include "memory/pin.h"

enum av_mem_fault {
	AV_MEM_OK,
	AV_MEM_NO_KEY,	 /* the key is not, or no longer, a key */
	AV_MEM_PD,	 /* it belongs to another protection domain */
	AV_MEM_ACCESS,	 /* it does not allow this kind of access */
	AV_MEM_RANGE,	 /* the range is not wholly inside */
	AV_MEM_GONE,	 /* the program has unmapped part of it since the region was registered */
	AV_MEM_TUNNELED, /* a payload for a region of tunneled atomics; its range was not looked at
			  */
	AV_MEM_DEPTH,	 /* keys made of keys, too many on the way to the bytes, or in a circle */
	AV_MEM_BUSY,	 /* the region is being re-registered: put everything that is held, and try
			    again */
	AV_MEM_FAULT_N
};

struct av_mem_request {
	uint32_t key;	 /* host order */
	uint32_t pd;	 /* protection domain in force, in the key's context */
	uint32_t access; /* enum ibv_access_flags needed: 0 for local reads */
	uint32_t qpn;	 /* the owner's queue pair on whose behalf, for windows bound to one */
	bool payload;	 /* it is to be stored what an RDMA WRITE brings: see AV_MEM_TUNNELED */
	bool remote; /* an rkey: windows are accepted, null regions are not; and the other way round
		      */
	uint64_t addr;	 /* in the key's own address space */
	uint64_t length; /* bytes, > 0 */
	bool whole; /* all that the key names, wherever it lies: @addr and @length do not count */
};

/* A run of bytes that may be accessed until av_mem_put(). */
struct av_span {
	void *local; /* where this process finds the bytes, or NULL: they are in the other process,
		      */
	uint64_t addr; /* at this virtual address there */
	uint64_t length;
	bool odp;	      /* paged in on demand: an access may be a page fault event */
	bool null;	      /* no bytes at all: zeros to read, nothing to write */
	bool writes;	      /* of an UMR span: the access changes what it reaches */
	struct av_seg *seg;   /* the context they belong to; borrowed */
	uint32_t pages_owner; /* of pages: the context in whose segment they are, */
	uint64_t offset; /* and where there; atomics know them by that, whoever has a key. Else 0 */
	struct av_pin *pin; /* keeps the key alive; NULL for bytes behind no key */
	/* Not NULL: pieces behind other keys, memory/klm_iter.h; @addr is an address of this key's
	 * own space. */
	const struct av_key *umr;
};

/* A scatter/gather list, translated. */
struct av_spans {
	uint32_t count;
	uint64_t bytes;			   /* sum of the lengths */
	struct av_span at[AV_MAX_SGE + 1]; /* one more: a header before a list */
};

/*
 * The common case: memory of the program's own, registered, mapped still, whose pages do not move.
 * True: @span is it. False: av_mem_get_any() finds out what the key is, or what is wrong.
 * Context: a pin names the key.
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
		span->local = k->adopted ? av_adopted_at(seg, k->adopted, at, req->length) : NULL;
	span->addr = at;
	span->length = req->length;
	span->odp = span->null = span->writes = false;
	span->seg = seg;
	span->pages_owner = 0;
	span->offset = 0;
	span->umr = NULL;
	return true;
}

/* The whole of av_mem_get(), from the pin on (not NULL), or from the beginning. */
AV_MUST_USE enum av_mem_fault av_mem_get_any(struct av_seg *seg, const struct av_mem_request *req,
					     struct av_span *span, struct av_pin *pin);

/**
 * av_mem_get() - translate one keyed range
 * @seg:  the context whose key it is, own or a peer's
 * @span: out; on AV_MEM_OK it pins the key until av_mem_put(). Deregistration waits for that, so it
 * is held for one transfer only. Of a UMR key all pieces have been checked, unless it is to be
 * flushed.
 *
 * Context: any thread; does not wait; touches none of the program's memory.
 * Source:  IBTA volume 1, 10.6.3 (memory access checks); ibv_reg_mr(3).
 */
AV_MUST_USE static inline enum av_mem_fault
av_mem_get(struct av_seg *seg, const struct av_mem_request *req, struct av_span *span)
{
	const struct av_key *k = av_key_entry(seg, req->key);

	if (av_unlikely(!k || req->key == 0 || seg->head->origin))
		return av_mem_get_any(seg, req, span, NULL);
	span->pin = av_pin_begin(seg, req->key);
	if (av_likely(span->pin && av_mem_is_plain(seg, k, req, span)))
		return AV_MEM_OK;
	return span->pin ? av_mem_get_any(seg, req, span, span->pin) : AV_MEM_BUSY;
}

/* For memory/klm_iter.c: the context whose table a key of @seg's is in, which is the origin's for a
 * key that was imported from there; NULL if that is gone. */
struct av_seg *av_mem_key_owner(struct av_seg *seg, uint32_t key);

/**
 * av_mem_resolve() - av_mem_get() for a key that a pin of the caller's keeps alive, one step only
 * @seg:  av_mem_key_owner() of the key
 * @span: out; without a pin, and perhaps indirect
 */
AV_MUST_USE enum av_mem_fault av_mem_resolve(struct av_seg *seg, const struct av_mem_request *req,
					     struct av_span *span);

static inline void av_mem_put(struct av_span *span)
{
	if (span->pin)
		av_pin_end(span->pin);
}

/**
 * av_mem_get_list() - translate a scatter/gather list, up to @bytes of it
 * @sge, @count: the list; elements of length 0 are skipped unseen, and so is what lies beyond
 * @bytes
 * @spans: out; on AV_MEM_OK to be given to av_mem_put_list(), else nothing is held
 *
 * Return: AV_MEM_RANGE also if the list is shorter than @bytes.
 */
AV_MUST_USE enum av_mem_fault av_mem_get_list(struct av_seg *seg, uint32_t pd, uint32_t access,
					      const struct ibv_sge *sge, uint32_t count,
					      uint64_t bytes, struct av_spans *spans);
void av_mem_put_list(struct av_spans *spans);

/* A list of one run of bytes that is behind no key and that this process reaches at @local. */
static inline void av_spans_local(struct av_spans *spans, struct av_seg *seg, void *local,
				  uint64_t bytes)
{
	spans->count = 1;
	spans->bytes = bytes;
	spans->at[0] = (struct av_span){.local = local, .length = bytes, .seg = seg};
}

/* A list that borrows from another: nothing of it is put. */
static inline void av_spans_copy(struct av_spans *to, const struct av_spans *from)
{
	to->count = from->count;
	to->bytes = from->bytes;
	for (uint32_t i = 0; i < from->count; i++)
		to->at[i] = from->at[i];
}

/* Drop the first @bytes of a list that is borrowed from another (nothing is put). */
void av_spans_skip(struct av_spans *spans, uint64_t bytes);

#endif
