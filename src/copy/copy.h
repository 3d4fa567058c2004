/* SPDX-License-Identifier: MIT */
/*
 * Copies memory that belongs to the program.
 *
 * Three things distinguish it from memcpy:
 * - Order: the last (partial) word is stored last, with release, because programs poll the last
 *   byte of an RDMA WRITE. Below 16 KiB all bytes become visible in ascending address order. An
 *   aligned 8-byte word of the destination is never torn if its 8 source bytes are copied together.
 *   (On arm64 the last word follows all others, which have no order among themselves.)
 * - Faults are answers: an address that is unmapped, protected or beyond the end of its file ends
 *   the copy with AV_COPY_FAULT; the program gets no signal.
 * - Nothing but the two ranges is read or written. The destination's neighbours are never
 *   rewritten.
 *
 * A SIGSEGV and SIGBUS handler catches the fault. It acts only on instructions of this routine and
 * passes everything else to the previous handler. Where the program has replaced our handler since,
 * or blocks the signals in this thread, av_copy() uses process_vm_readv() on its own process:
 * slower, equally safe. A thread notices such a change at the next tick of the coarse clock. See
 * docs/COPY.md.
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
	AV_COPY_FAULT = -1, /* a byte was inaccessible; all bytes before its page are copied */
};

/**
 * av_copy_init() - install the fault handler, if not installed yet
 *
 * Context: any thread, any number of times; serialised inside. Not async-signal-safe. Registration
 * of memory calls it before the first copy; without it, av_copy() takes the slow path.
 * Fork: the child has the handler too. The handler is never removed, so the library must not be
 * unloaded.
 * Return: 0 (also if the program has replaced the handler since: it is not installed again), or
 * -errno; then copies take the slow path
 */
int av_copy_init(void);

/* The functions below for callers that already know the coarse time (base/clock.h): @now_ns. */
AV_MUST_USE enum av_copy_result av_copy_at(void *dst, const void *src, size_t len, uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_probe_at(const void *addr, int write, uint64_t now_ns);

/*
 * av_copy_at() for a part of a copy of @whole bytes. The part is moved as the whole copy would be:
 * past the caches if they could not hold all of it. The last bytes of each part come last.
 */
AV_MUST_USE enum av_copy_result av_copy_part_at(void *dst, const void *src, size_t len,
						size_t whole, uint64_t now_ns);

/**
 * av_copy_destroys() - would an ascending copy overwrite source bytes before reading them?
 * @len: > 0
 */
static inline bool av_copy_destroys(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)dst - (uintptr_t)src - 1 < len - 1;
}

/**
 * av_copy() - copy @len bytes within this process, the last ones last
 *
 * The ranges may overlap only if dst <= src: see av_copy_destroys().
 * Context: any thread; may wait for pages, so hold no lock that another thread needs to make
 * progress.
 * Return: AV_COPY_OK or AV_COPY_FAULT
 */
AV_MUST_USE static inline enum av_copy_result av_copy(void *dst, const void *src, size_t len)
{
	return av_copy_at(dst, src, len, av_now_coarse_ns());
}

/**
 * av_copy_probe() - can this byte be read without a fault, and with @write also be written?
 *
 * @write adds zero atomically, so that no concurrent store is lost. On the slow path the add covers
 *   the aligned 4 bytes around @addr, and may wake a futex waiter there spuriously.
 * Return: AV_COPY_OK or AV_COPY_FAULT
 */
AV_MUST_USE static inline enum av_copy_result av_copy_probe(const void *addr, int write)
{
	return av_copy_probe_at(addr, write, av_now_coarse_ns());
}

/*
 * 8-byte atomic operations on this process's own memory, protected against faults like av_copy(),
 * except for a short gap on the slow path (docs/COPY.md). The caller has checked that @addr is
 * 8-byte aligned. On success *old gets the original value. Sequentially consistent. Read-only
 * memory is a fault even if the comparison fails. @now_ns is the coarse time.
 */
AV_MUST_USE enum av_copy_result av_copy_fetch_add(void *addr, uint64_t add, uint64_t *old,
						  uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_cmp_swap(void *addr, uint64_t compare, uint64_t swap,
						 uint64_t *old, uint64_t now_ns);

#endif
