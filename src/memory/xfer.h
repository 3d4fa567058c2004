/* SPDX-License-Identifier: MIT */
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
	AV_XFER_REFUSED,   /* the kernel denies this process access to the other's memory */
	AV_XFER_GONE,	   /* the other process is gone */
	AV_XFER_BUSY,	   /* a key has been withdrawn, or is being changed: put all keys, and start
			      again */
	AV_XFER_SPLIT,	   /* an atomic's operand is not one aligned word in memory */
};

/* The same for the first @bytes only. */
AV_MUST_USE enum av_xfer av_xfer_copy_part(const struct av_spans *dst, const struct av_spans *src,
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
 * Return:  on anything but AV_XFER_OK, a part may have been copied, from the beginning on
 */

AV_MUST_USE static inline enum av_xfer av_xfer_copy(const struct av_spans *dst,
						    const struct av_spans *src, uint64_t now_ns)
{
	if (av_likely(av_spans_are_here(dst) && av_spans_are_here(src) &&
		      !av_xfer_destroys(dst->at[0].local, src->at[0].local, dst->bytes) &&
		      av_copy_at(dst->at[0].local, src->at[0].local, dst->bytes, now_ns) ==
			      AV_COPY_OK))
		return AV_XFER_OK;
	/* Copies again after a fault, and finds out which end failed. */
	return av_xfer_copy_part(dst, src, dst->bytes, now_ns);
}

/*
 * Can the first @bytes be read? They go nowhere.
 * Context, return: as av_xfer_copy()
 */
AV_COLD AV_MUST_USE enum av_xfer av_xfer_read(const struct av_spans *src, uint64_t bytes,
					      uint64_t now_ns);

/* For memory/klm_copy.c: copy between two spans, neither behind a UMR key. */
AV_MUST_USE enum av_xfer av_xfer_copy_span(const struct av_span *d, uint64_t doff,
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
 * Return:  AV_XFER_DST_FAULT for a fault; then the memory is unchanged, as with AV_XFER_BUSY and
 * _SPLIT
 */
AV_MUST_USE enum av_xfer av_xfer_atomic(const struct av_span *span, const struct av_atomic *atomic,
					struct av_operand *old, uint64_t now_ns);

#endif
