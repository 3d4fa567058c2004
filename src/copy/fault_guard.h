/* SPDX-License-Identifier: MIT */
/*
 * Routines that may touch unmapped memory, and the signal handler that turns their fault into a
 * return value. Internal to copy/.
 *
 * The routines (copy_raw.c) are leaf functions in assembly: no stack, and only registers that a
 * call may change. A constant table names each range of their instructions and the landing where
 * execution continues after a fault. The handler (fault_guard.c) acts only on faults in these
 * ranges, and only sets the saved instruction pointer; all other faults of the process are passed
 * on.
 */
#ifndef AV_COPY_FAULT_GUARD_H
#define AV_COPY_FAULT_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

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

/* Install the handlers, once per process. Return: 0 or -errno. */
int av_fault_guard_install(void);

/* Ask the kernel (three system calls) and refresh the cache. */
bool av_fault_guard_check(uint64_t now_ns);

#endif
