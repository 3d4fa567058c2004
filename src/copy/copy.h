/* SPDX-License-Identifier: MIT */
/* Copying the program's memory: bytes stored in order; a fault is an error instead of a signal. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/compiler.h"

/*
 * Routines that may touch unmapped memory, and the signal handler that has a fault return a value.
 *
 * The routines (copy_raw.c) are leaf functions in assembly: they use no stack, and only registers
 * that a call may change. A constant table names each range of their instructions, and the landing
 * where execution continues after a fault. The handler (copy.c) acts only on faults in these
 * ranges: it sets the saved instruction pointer. It passes every other fault of the process on.
 */

/* How long a thread may use a result of av_copy_guard_check(): the coarse clock's longest tick. */
#define AV_COPY_GUARD_FRESH_NS 4000000u

/* If an instruction in [start, end) faults, execution continues at @landing. */
struct av_copy_range {
	const char *start, *end, *landing;
};

extern const struct av_copy_range av_copy_ranges[];
extern const size_t av_copy_range_count;

/*
 * The guarded routines. Each returns 0; or -1: a byte is not accessible. Call them only while a
 * fault of this thread reaches the handler: guard_ready() in copy.c.
 * - av_raw_copy() stores every byte before the first inaccessible one.
 * - av_raw_copy_wide() does the same for at least AV_RAW_WIDE_MIN bytes, if AV_RAW_WIDE_USABLE.
 * - av_raw_copy_string() and av_raw_copy_stream() copy the inner part of a large range, if usable.
 *   @dst is on a cache line, @len is a multiple of AV_RAW_LINES and not 0, and the ranges do not
 *   overlap. For av_raw_copy_string(), @src has the same offset in its line as @dst. They store in
 *   any order, but before every later store.
 * - av_raw_load() reads one byte, av_raw_touch() adds zero to one atomically.
 * - av_raw_fetch_add() and av_raw_cmp_swap() operate on 8 aligned bytes atomically.
 */
#define AV_RAW_WIDE_MIN 256
#define AV_RAW_LINES	128

#if defined(__x86_64__)
#define AV_RAW_WIDE_USABLE __builtin_cpu_supports("avx2")
#else
#define AV_RAW_WIDE_USABLE false
#endif

/* In two registers, so that a landing can set @status without a pointer of the caller's. */
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

/* Result and time of this thread's last check. All zero, so too old, before the first. */
struct av_copy_guard_cache {
	uint64_t checked_ns;
	bool ready;
};

/* initial-exec: one instruction reaches it, and no thread allocates it. */
extern __thread struct av_copy_guard_cache av_copy_guard_cache AV_TLS_FAST;
extern atomic_bool av_copy_guard_installed;

/* Is the handler ours, and are both signals unblocked here? Three system calls; sets the cache. */
bool av_copy_guard_check(uint64_t now_ns);

/*
 * Large copies: the choice of the guarded routine. Internal to copy/.
 *
 * A large copy trades the order of its inner part for speed. Its beginning, up to a cache line, and
 * its end (1 to AV_RAW_LINES bytes) are still stored in order, the end after everything else. Every
 * routine keeps aligned words whole. docs/COPY.md has the measurements.
 */

/* Below this size, no routine beats ascending stores. */
#define AV_BULK_MIN (16u << 10)

enum av_bulk_way {
	AV_BULK_ORDERED, /* ascending, with the widest stores available */
	AV_BULK_STRING,	 /* the string instruction; both ends at the same offset in a line */
	AV_BULK_STREAM,	 /* past the caches */
	AV_BULK_N,
};

/* The size from which copies bypass the caches; SIZE_MAX: never. */
size_t av_bulk_stream_min(void);

/* Can a copy of @len >= AV_BULK_MIN bytes use this routine? */
bool av_bulk_possible(enum av_bulk_way way, const void *dst, const void *src, size_t len);

/* The best routine for a copy of @len >= AV_BULK_MIN bytes. */
enum av_bulk_way av_bulk_choose(const void *dst, const void *src, size_t len);

/*
 * Copy @len >= AV_BULK_MIN bytes by a possible routine. Context: as the guarded routines.
 * Return: 0; -1: a byte is not accessible, and all bytes before the first such one are copied
 */
AV_MUST_USE int av_bulk_copy_by(enum av_bulk_way way, void *dst, const void *src, size_t len);

/*
 * Cutting a copy that the kernel makes into pieces, so that others see whole words, and the last
 * byte last (docs/COPY.md, "By the kernel"): up to the first word boundary of the destination, to
 * its first line boundary, whole lines, and the last line, partial or whole.
 *
 * Pure functions. Source and destination must have the same offset in a line.
 */

#define AV_PIECES_WORD 8u
#define AV_PIECES_LINE 64u
#define AV_PIECES_MAX  4u

struct av_pieces {
	struct iovec at[AV_PIECES_MAX];
	size_t count;
};

/*
 * Cut [@memory, @memory + @bytes) at the boundaries of a destination at @dst. @memory is the source
 * or the destination, whichever the iovec describes. No piece is empty.
 */
void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes);

/*
 * Copies memory that belongs to the program. Unlike memcpy():
 * - Order: the last (partial) word is stored last, with release. Below 16 KiB all bytes become
 *   visible in ascending address order (on arm64 the last word follows all others). An aligned
 *   8-byte word of the destination is never torn if its 8 source bytes are copied together.
 * - Faults are return values: an address that is unmapped, protected or beyond the end of its file
 *   ends the copy with AV_COPY_FAULT. The program gets no signal.
 * - It reads and writes nothing but the two ranges.
 *
 * Without our signal handler it makes system calls instead, slower and equally safe: docs/COPY.md.
 */

enum av_copy_result {
	AV_COPY_OK = 0,
	AV_COPY_FAULT = -1, /* a byte is not accessible; all bytes before its page are copied */
};

/*
 * Install the fault handler, once per process: the library must not be unloaded, and a forked child
 * inherits the handler. Registration of memory calls this first. Without it, av_copy() makes system
 * calls. Context: any thread, any number of times; a mutex inside. Not async-signal-safe.
 * Return: 0, also if the program has replaced the handler since; or -errno
 */
int av_copy_init(void);

/* av_copy() and av_copy_probe() for callers that know the coarse time (base/clock.h): @now_ns. */
AV_MUST_USE enum av_copy_result av_copy_at(void *dst, const void *src, size_t len, uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_probe_at(const void *addr, int write, uint64_t now_ns);

/*
 * av_copy_at() for a part of a copy of @whole bytes. It uses the routine that suits the whole: it
 * bypasses the caches if they cannot hold the whole. The last bytes of each part are stored last.
 */
AV_MUST_USE enum av_copy_result av_copy_part_at(void *dst, const void *src, size_t len,
						size_t whole, uint64_t now_ns);

/*
 * Copy @len bytes within this process, the last ones last. Ranges may overlap only if dst <= src.
 * Any thread; keeps errno; may wait for pages: hold no lock that others need to make progress.
 */
AV_MUST_USE static inline enum av_copy_result av_copy(void *dst, const void *src, size_t len)
{
	return av_copy_at(dst, src, len, av_now_coarse_ns());
}

/*
 * Can this byte be read without a fault, and with @write also be written? @write adds zero
 * atomically, so that no concurrent store is lost; without the handler, the kernel does, to the
 * aligned 4 bytes around @addr, and may wake a futex waiter there. Context: as av_copy().
 */
AV_MUST_USE static inline enum av_copy_result av_copy_probe(const void *addr, int write)
{
	return av_copy_probe_at(addr, write, av_now_coarse_ns());
}

/*
 * 8-byte atomic operations on 8-byte aligned memory of this process, sequentially consistent. They
 * are protected like av_copy(), except for a short gap without the handler (docs/COPY.md).
 * Read-only memory is a fault even if the comparison fails. Context: as av_copy().
 * Return: AV_COPY_OK: *old has the original value; AV_COPY_FAULT: nothing has changed
 */
AV_MUST_USE enum av_copy_result av_copy_fetch_add(void *addr, uint64_t add, uint64_t *old,
						  uint64_t now_ns);
AV_MUST_USE enum av_copy_result av_copy_cmp_swap(void *addr, uint64_t compare, uint64_t swap,
						 uint64_t *old, uint64_t now_ns);
