/* SPDX-License-Identifier: MIT */
/* How bytes move between processes, and what an atomic does to them. */
#ifndef AV_MEMORY_XFER_H
#define AV_MEMORY_XFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "memory/translate.h"

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

#endif
