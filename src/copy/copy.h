/* SPDX-License-Identifier: MIT */
/*
 * Copies memory that belongs to the program. Unlike memcpy:
 * - Order: the last (partial) word is stored last, with release, because programs poll the last
 *   byte of an RDMA WRITE. Below 16 KiB all bytes become visible in ascending address order. (On
 *   arm64 the last word follows all others, which have no order among themselves.) An aligned
 *   8-byte word of the destination is never torn if its 8 source bytes are copied together.
 * - Faults are answers: an address that is unmapped, protected or beyond the end of its file ends
 *   the copy with AV_COPY_FAULT; the program gets no signal.
 * - Nothing but the two ranges is read or written, nor any neighbour rewritten.
 *
 * A SIGSEGV and SIGBUS handler catches the fault: only of instructions of this routine; all else
 * goes to the previous handler. Where the program has replaced ours, or blocks the signals in this
 * thread (noticed at the next tick of the coarse clock), av_copy() uses process_vm_readv() on its
 * own process: slower, equally safe. See docs/COPY.md.
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

/*
 * Install the fault handler, once and for ever (the library must not be unloaded); a child has it
 * too. Registration of memory calls it before the first copy; without it, av_copy() takes the slow
 * path.
 * Context: any thread, any number of times; serialised inside. Not async-signal-safe.
 * Return: 0 (also if the program has replaced the handler since), or -errno
 */
int av_copy_init(void);

/* The functions below for callers that already know the coarse time (base/clock.h): @now_ns. */
AV_MUST_USE enum av_copy_result av_copy_at(void *dst, const void *src, size_t len, uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_probe_at(const void *addr, int write, uint64_t now_ns);

/*
 * av_copy_at() for a part of a copy of @whole bytes, moved as the whole would be: past the caches
 * if they could not hold all of it. The last bytes of each part come last.
 */
AV_MUST_USE enum av_copy_result av_copy_part_at(void *dst, const void *src, size_t len,
						size_t whole, uint64_t now_ns);

/*
 * Copy @len bytes within this process, the last ones last. Ranges may overlap only if dst <= src.
 * Any thread; may wait for pages: hold no lock that another thread needs to make progress.
 */
AV_MUST_USE static inline enum av_copy_result av_copy(void *dst, const void *src, size_t len)
{
	return av_copy_at(dst, src, len, av_now_coarse_ns());
}

/*
 * Can this byte be read without a fault, and with @write also be written? @write adds zero
 * atomically, so that no concurrent store is lost; on the slow path to the aligned 4 bytes around
 * @addr, perhaps waking a futex waiter there spuriously.
 */
AV_MUST_USE static inline enum av_copy_result av_copy_probe(const void *addr, int write)
{
	return av_copy_probe_at(addr, write, av_now_coarse_ns());
}

/*
 * 8-byte atomic operations on this process's own memory (8-byte aligned), protected like av_copy(),
 * except for a short gap on the slow path (docs/COPY.md). On success *old gets the original value.
 * Sequentially consistent. Read-only memory is a fault even if the comparison fails.
 */
AV_MUST_USE enum av_copy_result av_copy_fetch_add(void *addr, uint64_t add, uint64_t *old,
						  uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_cmp_swap(void *addr, uint64_t compare, uint64_t swap,
						 uint64_t *old, uint64_t now_ns);

#endif
