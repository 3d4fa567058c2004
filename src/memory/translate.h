/* SPDX-License-Identifier: MIT */
/*
 * From keys to bytes: translate a key, an address and a length into spans; copy between spans;
 * execute atomics on them; expand UMR keys. No other file compares addresses with regions.
 */
#pragma once

#include "copy/copy.h"
#include "memory/key.h"

/* === translate =================================================================== */

struct av_mem_request {
	uint32_t key;	 /* host order */
	uint32_t pd;	 /* protection domain that the key must have, in the key's context */
	uint32_t access; /* enum ibv_access_flags needed; 0 for local reads */
	uint32_t qpn;	 /* queue pair of the key's context, for bound type 2 windows */
	bool payload;	 /* the access stores the payload of an RDMA WRITE: AV_CHECK_TUNNELED */
	bool remote; /* rkey: windows are accepted, null regions refused; else lkey: the reverse */
	uint64_t addr;	 /* in the key's own address space */
	uint64_t length; /* bytes, > 0 */
	bool whole;	 /* everything that the key names; @addr and @length are ignored */
};

struct av_odp_message;

/* A run of bytes, accessible until av_pin_end() of its pin. */
struct av_span {
	void *local;   /* address in this process; NULL: the bytes are in the other process only */
	uint64_t addr; /* virtual address in the owner's process; of a UMR span: in the key's */
	uint64_t length;
	bool odp;	      /* ODP: an access may be a page fault event */
	bool null;	      /* no bytes: reads return zeros, writes are discarded */
	bool writes;	      /* UMR span: the access changes the bytes */
	struct av_seg *seg;   /* the context of the bytes; borrowed */
	uint32_t pages_owner; /* pages: the context whose segment holds them; else 0 */
	uint64_t offset;    /* pages, else undefined: their offset there, by which atomics lock them
			       whatever the key */
	struct av_pin *pin; /* keeps the key; NULL for bytes behind no key */
	/* Not NULL: the span is behind this UMR key, and consists of pieces behind other keys. */
	const struct av_key *umr;
	/* Not NULL: the bytes are a part of it (av_spans_are_part()); in @odp and @umr spans. */
	struct av_odp_message *message;
};

/* A translated scatter/gather list. */
struct av_spans {
	uint32_t count, refused;	   /* @refused: see av_mem_get_list() */
	uint64_t bytes;			   /* sum of the lengths */
	struct av_span at[AV_MAX_SGE + 1]; /* one more, for a header before a list */
};

/*
 * Address in this process of bytes of a peer's region, on its shared heap or on files. A corrupt
 * peer may write anything to its segment at any time, so each word is read once and checked. What
 * is aligned in the peer's process is aligned here.
 * Context: any thread; a pin names the key; the first use makes system calls, and may wait as
 * av_file_view_at() does. Return: NULL: not mappable here
 */
void *av_heap_part_at(struct av_seg *seg, uint32_t id, uint64_t addr, uint64_t len);

/* The general case of av_mem_get(). @pin: of the key, consumed; NULL: not pinned yet */
AV_MUST_USE enum av_check av_mem_get_any(struct av_seg *seg, const struct av_mem_request *req,
					 struct av_span *span, struct av_pin *pin);

/*
 * Translate one keyed range of @seg, own or a peer's. Checks a UMR key's pieces, unless to FLUSH.
 * @span: out; on AV_CHECK_NONE it pins the key until av_pin_end(). Deregistration waits for the
 * pin, so hold it for one transfer only. Else nothing is held.
 * Context: any thread; touches none of the program's memory. Does not wait for a key that is being
 * changed. May wait a bounded time for the owner's listener (av_still_mapped()), and the first use
 * of a peer's memory maps it (av_heap_part_at()).
 * Return: AV_CHECK_NONE; or the check that refuses it, for av_mr_explain(). AV_CHECK_BUSY: the key
 * is being changed, pages move, or all pin words are taken: unpin everything and retry.
 * AV_CHECK_TUNNELED: only if @req->payload
 * Source: IBTA volume 1, 10.6.3 (memory access checks); ibv_reg_mr(3).
 */
AV_MUST_USE enum av_check av_mem_get(struct av_seg *seg, const struct av_mem_request *req,
				     struct av_span *span);

/* For klm.c: the context whose table holds this key; an imported one's origin. NULL: it is gone. */
struct av_seg *av_mem_key_owner(struct av_seg *seg, uint32_t key);

/*
 * Translate one step of a key that the caller has pinned. @seg: av_mem_key_owner() of it. @span:
 * out; has no pin, and may be behind a UMR key. Context, return: as av_mem_get()
 */
AV_MUST_USE enum av_check av_mem_resolve(struct av_seg *seg, const struct av_mem_request *req,
					 struct av_span *span);

/*
 * Translate the first @bytes of a scatter/gather list. Elements of length 0, and those beyond
 * @bytes, are skipped unchecked. Context: as av_mem_get().
 * @spans: out; on AV_CHECK_NONE for av_mem_put_list(). Else nothing is held: @refused is the index
 * of the refused element, and @bytes is how many were still to be translated, from that element on
 * Return: as av_mem_get(); AV_CHECK_KEY_LIST: less than @bytes, or more than AV_MAX_SGE elements
 */
AV_MUST_USE enum av_check av_mem_get_list(struct av_seg *seg, uint32_t pd, uint32_t access,
					  const struct ibv_sge *sge, uint32_t count, uint64_t bytes,
					  struct av_spans *spans);
void av_mem_put_list(struct av_spans *spans);

/* A list of one run of bytes at @local in this process, behind no key. */
void av_spans_local(struct av_spans *spans, struct av_seg *seg, void *local, uint64_t bytes);

/* The same of @count runs, at most AV_MAX_SGE. */
void av_spans_iovec(struct av_spans *spans, struct av_seg *seg, const struct iovec *run,
		    uint32_t count);

/* Borrow the spans of another list. Do not call av_mem_put_list() for @to. */
void av_spans_copy(struct av_spans *to, const struct av_spans *from);

/* Drop the first @bytes of a borrowed list, which has that many. Ends no pin. */
void av_spans_skip(struct av_spans *spans, uint64_t bytes);

/* The list's bytes are a part of a message of several packets. */
void av_spans_are_part(struct av_spans *spans, struct av_odp_message *message);

/* === xfer ======================================================================== */

/*
 * Atomic operations as pure functions: old value in, new value out.
 * Source: CMP_SWAP, and ADD with field boundaries, are the extended masked atomics of MLNX_OFED;
 * the rest are those of POWER ISA 3.0 that return nothing and change one operand.
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
	uint32_t bytes; /* operand size: 1, 2, 4, 8, 16 or 32 */
	enum {
		AV_ATOMIC_NATIVE,
		AV_ATOMIC_SWAPPED,  /* the operand in memory has the opposite byte order */
		AV_ATOMIC_IN_STEPS, /* the processor may store between its read and its write */
	} how;
	struct av_operand value;	/* to add, to combine with, or to swap in */
	struct av_operand compare;	/* CMP_SWAP, CMP_SWAP_NE */
	struct av_operand mask;		/* CMP_SWAP: bits to swap in; ADD: top bits of fields */
	struct av_operand compare_mask; /* CMP_SWAP: bits to compare */
};

static inline bool av_atomic_size_valid(uint64_t bytes)
{
	return bytes && bytes <= AV_ATOMIC_MAX_BYTES && !(bytes & (bytes - 1));
}

/*
 * Copying translated bytes between spans of one host: av_copy() if this process maps both ends, in
 * private or shared memory; else process_vm_readv() and process_vm_writev().
 *
 * The bytes of an RDMA WRITE become visible in ascending order with the last word last, and aligned
 * 8-byte words are never torn. av_copy() keeps all of that up to 16 KiB; beyond, all but the
 * ascending order. The kernel's calls keep less, and only for the pieces that xfer.c gives them:
 * words are whole, the last comes last, and pages, but not the words within, are in order.
 */

/* The outcome of a request, or of a copy of its bytes. transport/outcome.h says what each means. */
enum av_fault {
	AV_FAULT_NONE,

	/* Found at the requester. The responder does not learn of it. */
	AV_FAULT_LOC_LEN,   /* message too long, or an atomic's operand not 8 bytes */
	AV_FAULT_LOC_QP_OP, /* an operation that this queue pair was not set up for */
	AV_FAULT_LOC_PROT,  /* a local buffer cannot be used */
	AV_FAULT_MW_BIND,   /* a window cannot be bound, or invalidated, this way */

	/* Found at the responder. */
	AV_FAULT_REM_ACCESS,	/* the rkey does not permit it, or the memory behind it is gone */
	AV_FAULT_REM_OP_DENIED, /* the queue pair's access flags do not permit the operation */
	AV_FAULT_REM_NO_RD_ATOMIC, /* it accepts no requests that take a responder's resource */
	AV_FAULT_REM_MISALIGNED,   /* an atomic's operand is not one aligned word */
	AV_FAULT_REM_NO_COMMAND,   /* tunneled atomics, and the payload is no list of commands */
	AV_FAULT_RECV_SHORT,	   /* message longer than the receive request */
	AV_FAULT_RECV_PROT,	   /* a receive buffer cannot be used */
	AV_FAULT_RECV_CQ,	   /* the receive completion does not fit the CQ */
	AV_FAULT_INVALIDATE,	   /* SEND_WITH_INV of a key that cannot be invalidated */
	AV_FAULT_FORBIDDEN,	   /* the kernel keeps the two processes apart */

	/* Internal: the program never sees them. */
	AV_FAULT_BUSY,	   /* a key is withdrawn or changing: unpin all keys, then execute again */
	AV_FAULT_TUNNELED, /* the payload is commands, not data: tunneled atomics */
	AV_FAULT_SRC,	   /* a copy's source is not accessible: av_fault_at() */
	AV_FAULT_DST,	   /* a copy's destination is not accessible, or not writable */
	AV_FAULT_GONE,	   /* the other process is gone */

	/* No acceptable answer in time. */
	AV_FAULT_RNR_EXHAUSTED,
	AV_FAULT_RETRY_EXHAUSTED,

	AV_FAULT_N
};

/* The outcome of a translation that @found this. @refused: the outcome if a check refused it */
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

/* The outcome @copied of a copy: @src and @dst are those of a bad source and destination. */
static inline enum av_fault av_fault_at(enum av_fault copied, enum av_fault src, enum av_fault dst)
{
	return copied == AV_FAULT_SRC ? src : copied == AV_FAULT_DST ? dst : copied;
}

/* av_xfer_copy() of the first @bytes only. */
AV_MUST_USE enum av_fault av_xfer_copy_part(const struct av_spans *dst, const struct av_spans *src,
					    uint64_t bytes, uint64_t now_ns);

/* Would an ascending copy of @len > 0 bytes overwrite source bytes before reading them? */
static inline bool av_xfer_destroys(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)dst - (uintptr_t)src - 1 < len - 1;
}

/*
 * Copy @dst->bytes from @src to @dst, lists of at least that many, at most one of them in another
 * process. @now_ns: coarse clock; the caller reads it once for a request
 * Context: any thread; it waits for pages, so the caller holds no lock that others wait for.
 * Return: AV_FAULT_NONE; AV_FAULT_SRC, AV_FAULT_DST, AV_FAULT_BUSY, AV_FAULT_FORBIDDEN or
 * AV_FAULT_GONE: a part may have been copied, from the beginning on (from the end on if a
 * destination overlaps the end of its source)
 */

AV_MUST_USE enum av_fault av_xfer_copy(const struct av_spans *dst, const struct av_spans *src,
				       uint64_t now_ns);

/* Can the first @bytes be read? Discards them. Context, return: as av_xfer_copy() */
AV_COLD AV_MUST_USE enum av_fault av_xfer_read(const struct av_spans *src, uint64_t bytes,
					       uint64_t now_ns);

/* For memory/klm.c: av_xfer_copy() between two spans, neither behind a UMR key. */
AV_MUST_USE enum av_fault av_xfer_copy_span(const struct av_span *d, uint64_t doff,
					    const struct av_span *s, uint64_t soff, uint64_t bytes,
					    uint64_t now_ns);

/* Has the kernel refused access to this segment's process? Its first refusal is logged. */
static inline bool av_xfer_refused(const struct av_seg *seg)
{
	return !seg->own && atomic_load_explicit(&seg->vm_refused, memory_order_relaxed);
}

/*
 * Execute one atomic operation: atomic among all processes and operand sizes (IBV_ATOMIC_HCA).
 * @span: atomic->bytes bytes, aligned to that number: the caller has checked both, but behind a UMR
 * key this function checks the alignment
 * @old: out, the original value; undefined beyond the operand's size, and for AV_ATOMIC_SWAP.
 * AV_ATOMIC_IN_STEPS, 8 bytes: its word 1 is set to 1 if it overwrote what the processor stored
 * Context: as av_xfer_copy(); takes the operand's lock in the directory.
 * Return: AV_FAULT_NONE; else the memory is unchanged: AV_FAULT_DST: not writable; AV_FAULT_BUSY:
 * also if the lock was not released in time; AV_FAULT_REM_MISALIGNED: behind a UMR key;
 * others as av_xfer_copy()
 */
AV_MUST_USE enum av_fault av_xfer_atomic(const struct av_span *span, const struct av_atomic *atomic,
					 struct av_operand *old, uint64_t now_ns);

/* === klm ========================================================================= */

/*
 * UMR keys (user-mode memory registration) stand for a list of pieces of other keys, in their
 * context's segment. A work request replaces the list. Each access translates an element anew, so
 * regions may come and go under a UMR key, and lists be filled in any order. A reader pins the key.
 * A writer holds the key's lock, has withdrawn the key, and has waited for its pins. If it dies,
 * accesses through the key are refused until the next fill.
 */

/* An element: in each round, @length bytes of @key, at @addr + round * @stride. */
struct av_klm_entry {
	uint64_t addr;
	uint64_t length;
	uint64_t stride;
	uint64_t start; /* bytes of the round before this element; av_klm_layout() sets it */
	uint32_t key;
	uint32_t unused;
};

/* The list of a key, at the offset @addr of struct av_key. */
struct av_klm_list {
	uint32_t capacity; /* most elements */
	uint32_t count;
	uint64_t round; /* bytes of all elements, for one round */
	struct av_klm_entry at[];
};

/*
 * Allocate a list in an own segment. av_klm_free() defers the free while a deferred key leads to it
 * (memory/region.h). Return: offset; or 0 and errno ENOMEM
 */
AV_MUST_USE uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity);
void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity);

/*
 * Check the arithmetic of a list that repeats @rounds > 0 times from address @base on, and set its
 * @start. Return: 0; EINVAL: an address or the sum of all lengths exceeds 64 bits
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
	uint32_t count;			    /* 0: the key names no bytes, and permits nothing */
};

/*
 * Replace the list of a UMR key in @seg, own or a peer's. Accesses meanwhile are refused.
 * Context: any process; the requester's @req_lock is held, no pin. Waits for the key's lock,
 * and for accesses through the old list as av_pin_drain(). Return: 0; or nothing has changed:
 * EINVAL: no such key in this domain, a list that does not fit, or a wait that ended in vain
 */
AV_MUST_USE int av_klm_fill(struct av_seg *seg, const struct av_klm_fill *fill);

/* Can a UMR span's bytes be accessed? Touches none of them. Context, return: as av_mem_get() */
AV_MUST_USE enum av_check av_klm_iter_check(const struct av_span *span);

/*
 * Copying piece by piece between spans, at least one of them behind a UMR key. One system call
 * copies many small pieces of another process: calls cost more than such bytes.
 */

/*
 * Copy @bytes from @s at @soff to @d at @doff, in the order of av_xfer_copy(). Context, return: as
 * there; yields the core a bounded number of times while a key is being changed.
 */
AV_MUST_USE enum av_fault av_klm_copy(const struct av_span *d, uint64_t doff,
				      const struct av_span *s, uint64_t soff, uint64_t bytes);

/* av_xfer_atomic() behind a UMR key, on an aligned operand in one piece; 0 in a null region. */
AV_MUST_USE enum av_fault av_klm_atomic(const struct av_span *span, const struct av_atomic *atomic,
					struct av_operand *old, uint64_t now_ns);
