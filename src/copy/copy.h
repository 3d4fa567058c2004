/* SPDX-License-Identifier: MIT */
/* How bytes are copied, and how a fault of a copy becomes a return value. */
#ifndef AV_COPY_COPY_H
#define AV_COPY_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/compiler.h"

/*
 * Routines that may touch unmapped memory, and the signal handler that turns their fault into a
 * return value.
 *
 * The routines (copy_raw.c) are leaf functions in assembly: no stack, and only registers that a
 * call may change. A constant table names each range of their instructions and the landing where
 * execution continues after a fault. The handler (copy.c) acts only on faults in these
 * ranges, and only sets the saved instruction pointer; all other faults of the process are passed
 * on.
 */

/* How old a thread's knowledge may get: the coarse clock's longest usual tick. */
#define AV_FAULT_GUARD_FRESH_NS 4000000u

/* If an instruction in [start, end) faults, execution continues at @landing. */
struct av_fault_range {
	const char *start, *end, *landing;
};

extern const struct av_fault_range av_fault_ranges[];
extern const size_t av_fault_range_count;

/*
 * The guarded routines. Each returns 0, or -1 as soon as a byte cannot be accessed. Call them only
 * while a fault of this thread reaches the handler: guard_ready() in copy.c.
 * - av_raw_copy() stores every byte before the first inaccessible one.
 * - av_raw_copy_wide() does the same for at least AV_RAW_WIDE_MIN bytes, if AV_RAW_WIDE_USABLE.
 * - av_raw_copy_string() and av_raw_copy_stream() copy the inner part of a large range, if usable.
 *   @dst is on a cache line, @len is a multiple of AV_RAW_LINES and not 0, and the ranges do not
 *   overlap. For av_raw_copy_string(), @src has the same offset in its line as @dst. They store in
 *   any order, but before anything stored afterwards.
 * - av_raw_touch() adds zero to one byte atomically.
 */
#define AV_RAW_WIDE_MIN 256
#define AV_RAW_LINES	128

#if defined(__x86_64__)
#define AV_RAW_WIDE_USABLE __builtin_cpu_supports("avx2")
#else
#define AV_RAW_WIDE_USABLE false
#endif

/* Returned in two registers, so that a landing need not know where the caller keeps it. */
struct av_raw_atomic {
	long status;
	uint64_t old;
};

int av_raw_copy(void *dst, const void *src, size_t len);
int av_raw_copy_wide(void *dst, const void *src, size_t len);
int av_raw_copy_string(void *dst, const void *src, size_t len);
bool av_raw_string_usable(void);
int av_raw_copy_stream(void *dst, const void *src, size_t len);
int av_raw_load(const void *addr);
int av_raw_touch(void *addr);
struct av_raw_atomic av_raw_fetch_add(void *addr, uint64_t add);
struct av_raw_atomic av_raw_cmp_swap(void *addr, uint64_t compare, uint64_t swap);

/* What this thread last found, and when. All zero, so outdated, before its first check. */
struct av_fault_guard_cache {
	uint64_t checked_ns;
	bool ready;
};

/* initial-exec: reached by one instruction, and never allocated. */
extern __thread struct av_fault_guard_cache av_fault_guard_cache AV_TLS_FAST;
extern atomic_bool av_fault_guard_installed;

/* Ask the kernel (three system calls) and refresh the cache. */
bool av_fault_guard_check(uint64_t now_ns);

/* How bytes are moved. */

/*
 * Large copies: chooses the guarded routine that moves the bytes. Internal to copy/.
 *
 * A large copy trades the order of its inner part for speed. Its beginning, up to a cache line, and
 * its end (1 to AV_RAW_LINES bytes) are still stored in order, the end after everything else. Every
 * routine keeps aligned words whole. docs/COPY.md has the measurements.
 */

/* Below this size, ascending stores are as fast as anything else. */
#define AV_BULK_MIN (16u << 10)

enum av_bulk_way {
	AV_BULK_ORDERED, /* ascending, with the widest stores available */
	AV_BULK_STRING,	 /* the processor's string instruction; both ends equally aligned within a
			    line */
	AV_BULK_STREAM,	 /* past the caches */
	AV_BULK_N,
};

/* The size from which copies are streamed; SIZE_MAX: never. */
size_t av_bulk_stream_min(void);

/* Can a copy of @len >= AV_BULK_MIN bytes use this routine? */
bool av_bulk_possible(enum av_bulk_way way, const void *dst, const void *src, size_t len);

/* The best routine for a copy of @len >= AV_BULK_MIN bytes. */
enum av_bulk_way av_bulk_choose(const void *dst, const void *src, size_t len);

/*
 * Copy @len >= AV_BULK_MIN bytes, by a possible routine or by the best one. Faults of this thread
 * reach the handler. Return: 0, or -1 at a fault; all bytes before the first inaccessible one are
 * copied.
 */
AV_MUST_USE int av_bulk_copy_by(enum av_bulk_way way, void *dst, const void *src, size_t len);

/*
 * Cuts a copy that the kernel makes, so that others see whole words and the last byte last.
 *
 * The kernel copies each element of an iovec with one byte-string instruction, whose stores to
 * different 64-byte lines may become visible in any order; stores of different instructions keep
 * their order (Intel SDM volume 3, "Memory-ordering model for string operations"). Measured beyond
 * that: within a line, stores ascend. Words stay whole in whole lines, and in one element that
 * covers the rest of a line. But elements of only one or two words are stored byte by byte, and so
 * are words after a partial one. So a copy is cut in four: up to the first word boundary of the
 * destination, from there to the first line boundary, whole lines, and the last line, partial or
 * whole.
 *
 * Pure functions. Both ends need equal alignment within a line.
 */

#define AV_PIECES_WORD 8u
#define AV_PIECES_LINE 64u
#define AV_PIECES_MAX  4u

struct av_pieces {
	struct iovec at[AV_PIECES_MAX];
	size_t count;
};

/*
 * Cut [@memory, @memory + @bytes) at the boundaries of a destination at @dst. @memory is the
 * destination itself or the source, whichever the vector describes. No piece is empty.
 */
void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes);

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
