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
#include "copy/copy.h"
#include "memory/key.h"
#include "observe/check.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* === translate =================================================================== */

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
	 * (memory/translate.h). Then @addr is in this key's address space.
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
 * Return:  AV_CHECK_NONE, or what refuses it, for av_mr_explain() (memory/region.h);
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

/* === xfer ======================================================================== */

/* How bytes move between processes, and what an atomic does to them. */

/*
 * Atomic operations as pure functions: old value in, new value out.
 * Source: CMP_SWAP and ADD with masks and field boundaries are the extended masked atomics of
 * MLNX_OFED. The rest are the atomic memory operations of POWER ISA 3.0 that return nothing and
 * change one operand.
 */

#define AV_ATOMIC_MAX_BYTES 32u /* largest operand */
#define AV_ATOMIC_WORDS	    (AV_ATOMIC_MAX_BYTES / sizeof(uint64_t))

enum av_atomic_op {
	AV_ATOMIC_ADD, /* in separate fields if @mask marks field boundaries */
	AV_ATOMIC_XOR,
	AV_ATOMIC_OR,
	AV_ATOMIC_AND,
	AV_ATOMIC_MAX_UNSIGNED,
	AV_ATOMIC_MAX_SIGNED,
	AV_ATOMIC_MIN_UNSIGNED,
	AV_ATOMIC_MIN_SIGNED,
	AV_ATOMIC_SWAP,
	AV_ATOMIC_CMP_SWAP,    /* compares and swaps under masks */
	AV_ATOMIC_CMP_SWAP_NE, /* swaps if the operands differ */
	AV_ATOMIC_OP_N
};

/* A number, least significant word first. Bytes beyond the operand's size are ignored. */
struct av_operand {
	uint64_t word[AV_ATOMIC_WORDS];
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the bytes of an operand in memory are those of its words");

struct av_atomic {
	enum av_atomic_op op;
	uint32_t bytes;		   /* operand size: 1, 2, 4, 8, 16 or 32 */
	uint32_t swapped;	   /* not 0: the operand in memory has the opposite byte order */
	struct av_operand value;   /* to add, to combine with, or to swap in */
	struct av_operand compare; /* CMP_SWAP, CMP_SWAP_NE */
	struct av_operand mask;	   /* CMP_SWAP: bits to swap in; ADD: top bits of fields */
	struct av_operand compare_mask; /* CMP_SWAP: bits to compare */
};

static inline bool av_atomic_size_valid(uint64_t bytes)
{
	return bytes && bytes <= AV_ATOMIC_MAX_BYTES && !(bytes & (bytes - 1));
}

/*
 * Compute the @new value of an operand from the @old, both as in memory. Nothing beyond the
 * operand's size is read (so @atomic may be uninitialized there) or defined in @new.
 * Return: false if a comparison failed and the operand stays as it is; then @new equals @old
 */
AV_MUST_USE bool av_atomic_apply(const struct av_atomic *atomic, const struct av_operand *old,
				 struct av_operand *new);

/*
 * Copying translated bytes, within this process and between processes of one host.
 *
 * own: both ends are addresses of this process, in its own or in shared memory: av_copy().
 * vm: one end is another process's memory: process_vm_readv(), process_vm_writev().
 *
 * Order and tearing: the bytes of an RDMA WRITE are to become visible in ascending order with the
 * last word last, and aligned 8-byte words never torn. av_copy() keeps all of that up to 16 KiB;
 * beyond, all but the ascending order. process_vm_writev() keeps it only in part, and only if it
 * gets suitable pieces (see xfer.c). Then words are whole, the last word comes last, and pages are
 * in order; the words within a page may become visible in any order.
 */

/*
 * What a request, or a copy of its bytes, ends with. transport/rules.h says what each means to
 * either side.
 */
enum av_fault {
	AV_FAULT_NONE,

	/* Found at the requester; no responder hears of it. */
	AV_FAULT_LOC_LEN,   /* message too long, or an atomic's operand not 8 bytes */
	AV_FAULT_LOC_QP_OP, /* an operation that this queue pair was not set up for */
	AV_FAULT_LOC_PROT,  /* a local buffer cannot be used */
	AV_FAULT_MW_BIND,   /* a window cannot be bound, or invalidated, this way */

	/* Found at the responder. */
	AV_FAULT_REM_ACCESS,	/* the rkey does not permit it, or the memory behind it is gone */
	AV_FAULT_REM_OP_DENIED, /* the queue pair's access flags do not permit the operation */
	AV_FAULT_REM_NO_RD_ATOMIC, /* it accepts no READs, atomics and other requests that take a
				      responder's resource */
	AV_FAULT_REM_MISALIGNED,   /* an atomic's operand is not one aligned word */
	AV_FAULT_REM_NO_COMMAND,   /* tunneled atomics, and the payload is no list of commands */
	AV_FAULT_RECV_SHORT,	   /* message longer than the receive request */
	AV_FAULT_RECV_PROT,	   /* a receive buffer cannot be used */
	AV_FAULT_RECV_CQ,	   /* the receive completion does not fit the CQ */
	AV_FAULT_INVALIDATE,	   /* SEND_WITH_INV of a key that cannot be invalidated */
	AV_FAULT_FORBIDDEN,	   /* the kernel keeps the two processes apart */

	/* These never leave the transport. */
	AV_FAULT_BUSY,	   /* a key is withdrawn, or being changed: put all keys, and start again */
	AV_FAULT_TUNNELED, /* the payload is not data but commands: tunneled atomics */
	AV_FAULT_SRC,	   /* a copy's source is not there (unmapped, protected), */
	AV_FAULT_DST,	   /* or its destination is not, or not writable: see av_fault_at() */
	AV_FAULT_GONE,	   /* the other process is gone */

	/* No acceptable answer in time. */
	AV_FAULT_RNR_EXHAUSTED,
	AV_FAULT_RETRY_EXHAUSTED,

	AV_FAULT_N
};

/* The outcome of a translation that @found this; @refused: if a check refuses the key. */
static inline enum av_fault av_fault_of(enum av_check found, enum av_fault refused)
{
	switch (found) {
	case AV_CHECK_NONE:
		return AV_FAULT_NONE;
	case AV_CHECK_BUSY:
		return AV_FAULT_BUSY;
	case AV_CHECK_TUNNELED:
		return AV_FAULT_TUNNELED;
	default:
		return refused;
	}
}

/* The outcome of a copy, when it is known whose memory its @src and @dst are. */
static inline enum av_fault av_fault_at(enum av_fault copied, enum av_fault src, enum av_fault dst)
{
	return copied == AV_FAULT_SRC ? src : copied == AV_FAULT_DST ? dst : copied;
}

/* The same for the first @bytes only. */
AV_MUST_USE enum av_fault av_xfer_copy_part(const struct av_spans *dst, const struct av_spans *src,
					    uint64_t bytes, uint64_t now_ns);

/* Is all of it at one address of this process, with no page fault events to count? */
static inline bool av_spans_are_here(const struct av_spans *spans)
{
	return av_likely(spans->count == 1 && spans->at[0].local && !spans->at[0].odp);
}

/* The same for any number of pieces. */
static inline bool av_spans_in_reach(const struct av_spans *spans)
{
	for (uint32_t i = 0; i < spans->count; i++)
		if (!spans->at[i].local || spans->at[i].odp)
			return false;
	return true;
}

/* Would an ascending copy of @len > 0 bytes overwrite source bytes before reading them? */
static inline bool av_xfer_destroys(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)dst - (uintptr_t)src - 1 < len - 1;
}

/**
 * av_xfer_copy() - copy @dst->bytes from @src to @dst
 * @now_ns: coarse clock, which is read once for a request
 *
 * Both lists hold at least @dst->bytes. At most one of them is in another process.
 * Context: any thread; no lock is held that others wait for, since it waits for pages.
 * Return:  on anything but AV_FAULT_NONE, a part may have been copied, from the beginning on
 */

AV_MUST_USE static inline enum av_fault av_xfer_copy(const struct av_spans *dst,
						     const struct av_spans *src, uint64_t now_ns)
{
	if (av_likely(av_spans_are_here(dst) && av_spans_are_here(src) &&
		      !av_xfer_destroys(dst->at[0].local, src->at[0].local, dst->bytes) &&
		      av_copy_at(dst->at[0].local, src->at[0].local, dst->bytes, now_ns) ==
			      AV_COPY_OK))
		return AV_FAULT_NONE;
	/* Copies again after a fault, and finds out which end failed. */
	return av_xfer_copy_part(dst, src, dst->bytes, now_ns);
}

/*
 * Can the first @bytes be read? They go nowhere.
 * Context, return: as av_xfer_copy()
 */
AV_COLD AV_MUST_USE enum av_fault av_xfer_read(const struct av_spans *src, uint64_t bytes,
					       uint64_t now_ns);

/* For memory/klm.c: copy between two spans, neither behind a UMR key. */
AV_MUST_USE enum av_fault av_xfer_copy_span(const struct av_span *d, uint64_t doff,
					    const struct av_span *s, uint64_t soff, uint64_t bytes,
					    uint64_t now_ns);

/*
 * Is access to that segment's memory denied? A refusal is remembered, and the first one per process
 * is logged.
 */
static inline bool av_xfer_refused(const struct av_seg *seg)
{
	return !seg->own && atomic_load_explicit(&seg->vm_refused, memory_order_relaxed);
}

/**
 * av_xfer_atomic() - execute one atomic operation on an operand
 *
 * Atomic among all processes of the device and all sizes of operands (IBV_ATOMIC_HCA).
 * @span: atomic->bytes bytes, aligned to that number. The caller has checked this; for a span
 * behind a UMR key it is checked here
 * @old:  out, the original value; undefined beyond the operand's size, and for AV_ATOMIC_SWAP
 *
 * Context: as av_xfer_copy(); takes the operand's lock in the directory meanwhile.
 * Return:  AV_FAULT_DST for a fault; then the memory is unchanged, as with AV_FAULT_BUSY and
 * AV_FAULT_REM_MISALIGNED
 */
AV_MUST_USE enum av_fault av_xfer_atomic(const struct av_span *span, const struct av_atomic *atomic,
					 struct av_operand *old, uint64_t now_ns);

/* === klm ========================================================================= */

/*
 * UMR keys (user-mode memory registration): a UMR key stands for a list of pieces of other keys, in
 * the segment of its context, so that any process finds the bytes. A work request replaces the
 * list. An element names its piece by key and address, and is translated anew at each access:
 * regions may come and go under a UMR key, and lists may be filled in any order.
 *
 * A reader holds a pin on the key. A writer holds the key's lock, has withdrawn the key, and has
 * waited for its pins. A writer that dies leaves a key that reaches nothing until the next fill.
 */

/* An element: in each round, @length bytes of @key, from @addr + round * @stride on. */
struct av_klm_entry {
	uint64_t addr;
	uint64_t length;
	uint64_t stride;
	uint64_t start; /* bytes of the round before this element; set by av_klm_layout() */
	uint32_t key;
	uint32_t unused;
};

/* The list of a key, at @addr of the key's table entry. */
struct av_klm_list {
	uint32_t capacity; /* elements there is room for */
	uint32_t count;
	uint64_t round; /* bytes of all elements together */
	struct av_klm_entry at[];
};

static inline uint64_t av_klm_bytes(uint32_t capacity)
{
	return sizeof(struct av_klm_list) + (uint64_t)capacity * sizeof(struct av_klm_entry);
}

/* Allocate a list in an own segment. Return: offset, or 0 and errno ENOMEM. */
AV_MUST_USE uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity);
void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity);

/*
 * Check the arithmetic of a list that repeats @rounds > 0 times from address @base on, and set
 * @start of its elements. Return: 0, or EINVAL: an address or the sum of all lengths does not fit
 * 64 bits.
 */
AV_MUST_USE int av_klm_layout(struct av_klm_entry *entries, uint32_t count, uint64_t rounds,
			      uint64_t base);

struct av_klm_fill {
	uint32_t key;
	uint32_t pd;	 /* of the queue pair */
	uint32_t access; /* enum ibv_access_flags, of the key from now on */
	uint64_t base;
	uint64_t rounds;
	const struct av_klm_entry *entries; /* laid out; copied */
	uint32_t count;			    /* 0: the key stands for nothing, and permits nothing */
};

/*
 * Replace the list of a UMR key in @seg, own or a peer's. Accesses that come meanwhile find no key.
 * Context: any process; the queue pair's right @exec is held, no pin. Waits as long as an access
 * through the old list takes, AV_PATIENCE_NS at most.
 * Return: 0, or EINVAL: no such key in this domain, a list that does not fit, or an access that
 * does not end; then nothing has changed
 */
AV_MUST_USE int av_klm_fill(struct av_seg *seg, const struct av_klm_fill *fill);

/*
 * The runs of bytes behind a UMR key, a few at a time.
 *
 * The span's pin keeps the UMR key itself alive. The keys on the way down to the bytes are pinned
 * by a struct av_run, while its pieces are in use. An unlimited list takes no more than AV_KLM_PINS
 * pins at a time. So a region may be deregistered, or a key filled anew, during a long transfer;
 * the transfer then fails at that piece.
 *
 * A peer may have written the lists. So offsets and counts are checked, and the way down has at
 * most AV_KLM_DEPTH steps.
 */

#define AV_RUN_PIECES 64u /* all of a copy is on the stack of whoever executes */

/* Keys that are pinned together. */
struct av_klm_pins {
	uint32_t count;
	struct {
		struct av_seg *seg;
		uint32_t key;
		struct av_pin *pin;
	} at[AV_KLM_PINS];
};

/* The next pieces of a span. None is behind a UMR key, and their pins are borrowed. */
struct av_run {
	uint32_t count;
	uint64_t bytes;
	struct av_klm_pins pins;
	struct av_span at[AV_RUN_PIECES];
};

/**
 * av_klm_iter_check() - can all bytes of a UMR span be reached now?
 *
 * Checks keys and ranges; touches none of the program's memory.
 * Return:  as av_mem_get()
 */
AV_MUST_USE enum av_check av_klm_iter_check(const struct av_span *span);

/**
 * av_klm_iter_expand() - the first pieces of [offset, offset + bytes) of a span of any kind
 * @run: out; on AV_CHECK_NONE at least one piece, to be given to av_klm_iter_drop(); else nothing
 * is held
 *
 * Context: does not wait.
 * Return:  as av_mem_get(). AV_CHECK_BUSY: a key is being changed, or all pins are taken. A caller
 * that waits for it to pass holds no other run, and waits a bounded time: there could be a circle.
 * Then it puts everything and starts again
 */
AV_MUST_USE enum av_check av_klm_iter_expand(const struct av_span *span, uint64_t offset,
					     uint64_t bytes, struct av_run *run);
void av_klm_iter_drop(struct av_run *run);

/*
 * Copying between spans of which at least one is behind a UMR key, piece by piece. Small pieces of
 * another process are copied many at a time, since a system call for each would cost more than its
 * bytes.
 */

/**
 * av_klm_copy() - copy @bytes from @s at @soff to @d at @doff
 *
 * The order is that of av_xfer_copy().
 * Context: any thread, no lock held that others wait for; yields the core a bounded number of
 * times.
 * Return:  as av_xfer_copy(); AV_FAULT_BUSY: a key on the way is being changed
 */
AV_MUST_USE enum av_fault av_klm_copy(const struct av_span *d, uint64_t doff,
				      const struct av_span *s, uint64_t soff, uint64_t bytes);

/* av_xfer_atomic() behind a UMR key. The operand must be one aligned word in memory. */
AV_MUST_USE enum av_fault av_klm_atomic(const struct av_span *span, const struct av_atomic *atomic,
					struct av_operand *old, uint64_t now_ns);

#endif
