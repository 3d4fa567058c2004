/* SPDX-License-Identifier: MIT */
/*
 * The copy routine for memory that belongs to the program.
 *
 * Three things distinguish it from memcpy:
 *  - Order: the last (partial) word is stored last, with release; programs poll the last byte of an
 * RDMA WRITE. Below 16 KiB all bytes become visible in ascending address order. An aligned 8-byte
 * word of the destination is stored whole whenever its 8 source bytes are copied whole, never torn.
 * (On arm64 only the last word is ordered after all the others; these may become visible in any
 * order among themselves.)
 *  - Faults are answers: an address that is unmapped, protected or lies beyond the end of its file
 * ends the copy with AV_COPY_FAULT instead of a signal to the program.
 *  - Nothing but the two ranges is read or written (a destination's neighbours are never
 * rewritten).
 *
 * How a fault is caught: a SIGSEGV and SIGBUS handler that acts only on an instruction of this
 * routine and otherwise passes the signal on to whatever handler was there before. Where the
 * program has since replaced the handler, or blocks the signals in this thread, av_copy() uses
 * process_vm_readv() on its own process instead: slower, equally safe. A thread notices such a
 * change at the next tick of the coarse clock. See docs/COPY.md.
 */
#ifndef AV_COPY_COPY_H
#define AV_COPY_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"

enum av_copy_result {
	AV_COPY_OK = 0,
	AV_COPY_FAULT = -1, /* some byte could not be accessed; all bytes before its page have been
			       copied */
};

/**
 * av_copy_init() - install the fault handler if it is not installed
 *
 * Context: any thread, any number of times; serialised inside. Not async-signal-safe. Called before
 * the first copy (registration of memory does it); av_copy() works without it, by the slow path.
 * Fork:    the child has the handler too. Never undone: the library that contains this must not be
 * unloaded. Return:  0 (also if the program has replaced the handler since: it is not installed a
 * second time), or -errno; the slow path then serves
 */
int av_copy_init(void);

/* The functions below, for who has read the coarse clock already (base/clock.h): @now_ns. */
AV_MUST_USE enum av_copy_result av_copy_at(void *dst, const void *src, size_t len, uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_probe_at(const void *addr, int write, uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_fetch_add_at(void *addr, uint64_t add, uint64_t *old,
						     uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_cmp_swap_at(void *addr, uint64_t compare, uint64_t swap,
						    uint64_t *old, uint64_t now_ns);

/*
 * The same for a part of a copy of @whole bytes, which is moved as so large a copy is: past the
 * caches, if these would not hold all of it. The last bytes of each part come last.
 */
AV_MUST_USE enum av_copy_result av_copy_part_at(void *dst, const void *src, size_t len,
						size_t whole, uint64_t now_ns);

/**
 * av_copy_destroys() - would a copy in ascending order overwrite bytes of the source that it has
 * yet to read?
 * @len: > 0
 */
static inline bool av_copy_destroys(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)dst - (uintptr_t)src - 1 < len - 1;
}

/**
 * av_copy() - copy @len bytes from @src to @dst, both in this process, the last ones last
 *
 * Context: any thread; may wait for pages; the caller holds no lock another thread needs to make
 * progress. The ranges may overlap only if dst <= src: see av_copy_destroys(). Return:  AV_COPY_OK,
 * or AV_COPY_FAULT
 */
AV_MUST_USE static inline enum av_copy_result av_copy(void *dst, const void *src, size_t len)
{
	return av_copy_at(dst, src, len, av_now_coarse_ns());
}

/**
 * av_copy_probe() - can this byte be read (and with @write non-zero, written back unchanged)
 * without a fault?
 *
 * @write probes with an atomic add of zero, so that a concurrent writer's store is never lost. By
 * the slow path the add covers the aligned 4 bytes around @addr, and may wake a futex waiter there
 * without cause. Return:  AV_COPY_OK or AV_COPY_FAULT
 */
AV_MUST_USE static inline enum av_copy_result av_copy_probe(const void *addr, int write)
{
	return av_copy_probe_at(addr, write, av_now_coarse_ns());
}

/*
 * 8-byte atomic operations on this process' own memory, with the same protection against faults as
 * av_copy() (by the slow path with a moment's gap: docs/COPY.md). @addr is 8-byte aligned (the
 * caller has checked). The original value is stored to *old, on success only. Sequentially
 * consistent. Memory that may not be written is a fault even if the comparison fails.
 */
AV_MUST_USE static inline enum av_copy_result av_copy_fetch_add(void *addr, uint64_t add,
								uint64_t *old)
{
	return av_copy_fetch_add_at(addr, add, old, av_now_coarse_ns());
}

AV_MUST_USE static inline enum av_copy_result av_copy_cmp_swap(void *addr, uint64_t compare,
							       uint64_t swap, uint64_t *old)
{
	return av_copy_cmp_swap_at(addr, compare, swap, old, av_now_coarse_ns());
}

#endif
