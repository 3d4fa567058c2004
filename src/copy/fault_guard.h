/* SPDX-License-Identifier: MIT */
/*
 * Routines that may touch unmapped memory, and the signal handler that turns their fault into a
 * return value. Internal to copy/; everybody else uses copy/copy.h.
 *
 * The routines (copy_raw.c) are leaf functions in assembly: no stack, and only registers that a
 * call may change. A table names each range of their instructions and the landing where execution
 * continues after a fault. A thread is "guarded" exactly while its instruction pointer is in one of
 * these ranges. The handler (fault_guard.c) acts only then, and only sets the saved instruction
 * pointer; the kernel restores everything else when the handler returns. All other faults of the
 * process are passed on.
 *
 * Thread-safety: the table is constant; the cache below is per thread.
 */
#ifndef AV_COPY_FAULT_GUARD_H
#define AV_COPY_FAULT_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/*
 * How old a thread's knowledge of handlers and signal mask may get: the longest usual tick of the
 * coarse clock.
 */
#define AV_FAULT_GUARD_FRESH_NS 4000000u

/* If an instruction in [start, end) faults, execution continues at @landing. */
struct av_fault_range {
	const char *start, *end, *landing;
};

extern const struct av_fault_range av_fault_ranges[];
extern const size_t av_fault_range_count;

/*
 * The guarded routines. Each returns 0, or -1 as soon as a byte cannot be accessed. Call them only
 * while av_fault_guard_ready() is true for this thread.
 * - av_raw_copy() stores every byte before the first inaccessible one.
 * - av_raw_copy_wide() does the same for at least AV_RAW_WIDE_MIN bytes, if av_raw_wide_usable().
 * - av_raw_copy_string() and av_raw_copy_stream() copy the inner part of a large range, if usable.
 *   @dst is on a cache line, @len is a multiple of AV_RAW_LINES and not 0, and the ranges do not
 *   overlap. For av_raw_copy_string(), @src has the same offset in its line as @dst. They store in
 *   any order, but before anything stored afterwards.
 * - av_raw_touch() adds zero to one byte atomically.
 */
#define AV_RAW_WIDE_MIN 256
#define AV_RAW_LINES	128

/* Returned in two registers, so that a landing need not know where the caller keeps it. */
struct av_raw_atomic {
	long status;
	uint64_t old;
};

int av_raw_copy(void *dst, const void *src, size_t len);
int av_raw_copy_wide(void *dst, const void *src, size_t len);
bool av_raw_wide_usable(void);
int av_raw_copy_string(void *dst, const void *src, size_t len);
bool av_raw_string_usable(void);
int av_raw_copy_stream(void *dst, const void *src, size_t len);
bool av_raw_stream_usable(void);
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

/* Install the handlers, once per process. Return: 0 or -errno. */
int av_fault_guard_install(void);

/* Ask the kernel (three system calls) and refresh the cache. */
bool av_fault_guard_check(uint64_t now_ns);

/*
 * av_fault_guard_ready() - would a fault of this thread reach our handler?
 * @now_ns: the coarse clock
 *
 * False before the installation, after a handler was replaced, and while this thread blocks one of
 * the two signals. The answer may be AV_FAULT_GUARD_FRESH_NS old.
 */
static inline bool av_fault_guard_ready(uint64_t now_ns)
{
	if (!atomic_load_explicit(&av_fault_guard_installed, memory_order_acquire))
		return false;
	if (av_likely(now_ns - av_fault_guard_cache.checked_ns < AV_FAULT_GUARD_FRESH_NS))
		return av_fault_guard_cache.ready;
	return av_fault_guard_check(now_ns);
}

#endif
