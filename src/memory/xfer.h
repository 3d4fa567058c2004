/* SPDX-License-Identifier: MIT */
/*
 * Moving bytes that have been translated, within this process and between processes of one host.
 *
 * own:  both ends are addresses of this process (its own memory, or shared memory it maps):
 * av_copy(). vm:   one end is another process' memory: process_vm_readv(), process_vm_writev().
 *
 * Order and tearing (design: the bytes of an RDMA WRITE become visible in ascending order, the last
 * word last, and aligned 8-byte words are never torn): av_copy() has all of it up to 16 KiB, and
 * beyond that all but the ascending order. process_vm_writev() has it only if it is given the right
 * pieces (see xfer.c): then words are whole, the last one comes last, and the order is that of
 * pages; within a page the body's words may become visible in any order.
 */
#ifndef AV_MEMORY_XFER_H
#define AV_MEMORY_XFER_H

#include <stdint.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "memory/atomic_op.h"
#include "memory/translate.h"

enum av_xfer {
	AV_XFER_OK,
	AV_XFER_SRC_FAULT, /* source memory is not there (unmapped, protected) */
	AV_XFER_DST_FAULT, /* destination memory is not there or not writable */
	AV_XFER_REFUSED,   /* the kernel does not let this process into the other's memory */
	AV_XFER_GONE,	   /* the other process is gone */
	AV_XFER_BUSY, /* behind an UMR key, a key is being changed: put all keys, and start again */
	AV_XFER_SPLIT, /* the word of an atomic is not one aligned word where it lies */
};

/* The same for the first @bytes only. */
AV_MUST_USE enum av_xfer av_xfer_copy_part(const struct av_spans *dst, const struct av_spans *src,
					   uint64_t bytes);

/* Does this process reach all of it at one address, with no page fault events to count? */
static inline bool av_spans_are_here(const struct av_spans *spans)
{
	return av_likely(spans->count == 1 && spans->at[0].local && !spans->at[0].odp);
}

/* The same of any number of pieces. */
static inline bool av_spans_in_reach(const struct av_spans *spans)
{
	for (uint32_t i = 0; i < spans->count; i++)
		if (!spans->at[i].local || spans->at[i].odp)
			return false;
	return true;
}

/**
 * av_xfer_copy() - copy @dst->bytes from @src to @dst
 * @now_ns: coarse clock, which is read once for a request
 *
 * Both lists hold at least @dst->bytes. At most one of them is in another process.
 * Context: any thread, no lock held that others wait for: waits for pages.
 * Return:  on anything but AV_XFER_OK a part, from the beginning, may have been copied
 */

AV_MUST_USE static inline enum av_xfer av_xfer_copy(const struct av_spans *dst,
						    const struct av_spans *src, uint64_t now_ns)
{
	if (av_likely(av_spans_are_here(dst) && av_spans_are_here(src) &&
		      !av_copy_destroys(dst->at[0].local, src->at[0].local, dst->bytes) &&
		      av_copy_at(dst->at[0].local, src->at[0].local, dst->bytes, now_ns) ==
			      AV_COPY_OK))
		return AV_XFER_OK;
	return av_xfer_copy_part(dst, src, dst->bytes); /* once more: it tells which end failed */
}

/* For memory/klm_copy.c: between two spans, neither of which is indirect. */
AV_MUST_USE enum av_xfer av_xfer_copy_span(const struct av_span *d, uint64_t doff,
					   const struct av_span *s, uint64_t soff, uint64_t bytes);

/* Can that segment's memory be reached at all? Remembers a refusal; the first one per process is
 * logged. */
static inline bool av_xfer_refused(const struct av_seg *seg)
{
	return !seg->own && atomic_load_explicit(&seg->vm_refused, memory_order_relaxed);
}

/**
 * av_xfer_atomic() - one atomic operation on an operand, atomic among all processes of the device
 * and all sizes of operands (IBV_ATOMIC_HCA)
 * @span: atomic->bytes bytes, aligned to their number (checked by the caller; of pieces behind an
 * indirect key, here)
 * @old:  out, the original value; words beyond the operand's size undefined, and all of
 * AV_ATOMIC_SWAP
 *
 * Context: as av_xfer_copy(); takes the operand's lock in the directory meanwhile.
 * Return:  a fault is AV_XFER_DST_FAULT; the memory is then unchanged, as with AV_XFER_BUSY and
 * _SPLIT
 */
AV_MUST_USE enum av_xfer av_xfer_atomic(const struct av_span *span, const struct av_atomic *atomic,
					struct av_operand *old, uint64_t now_ns);

#endif
