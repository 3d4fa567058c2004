/* SPDX-License-Identifier: MIT */
/* Attributes and small macros that every file may use. Knows nothing of RDMA. */
#ifndef AV_BASE_COMPILER_H
#define AV_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Exported symbols; everything else is hidden. Names in libanyverbs.map get the usual version
 * nodes. The others stay unversioned: so they satisfy a reference with any version, which private
 * and C library symbols need.
 */
#define AV_EXPORT __attribute__((visibility("default")))

#define AV_MUST_USE	__attribute__((warn_unused_result))
#define AV_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Rarely called. Kept out of line, so that callers need fewer registers. */
#define AV_COLD		 __attribute__((noinline, cold))
#define AV_CACHE_LINE	 64
#define AV_ALIGNED(n)	 __attribute__((aligned(n)))
#define AV_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * A small thread-local variable that is reached without a call. In a library that is loaded late,
 * it takes a few bytes of the C library's reserve.
 */
#define AV_TLS_FAST __attribute__((tls_model("initial-exec")))

#define av_likely(x)   __builtin_expect(!!(x), 1)
#define av_unlikely(x) __builtin_expect(!!(x), 0)

/* The structure that contains @member, given a pointer to the member. */
#define av_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * For ThreadSanitizer, which sees one process only. A thread released @word, a thread of another
 * process acquired it, and this thread got the data from that process: that is no race. No
 * instruction in other builds.
 */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define AV_CAME_BY_PEER(word) __tsan_acquire(word)
#else
#define AV_CAME_BY_PEER(word) ((void)(word))
#endif

/* One turn of a spin loop. Tells the core that a sibling thread may have the pipeline. */
static inline void av_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/*
 * Prefetch the cache line at @p for writing; a hint, for any address. The compiler's builtin would
 * prefetch for reading without a named processor, and the store would still wait for the others.
 */
#if defined(__x86_64__)
#define av_prefetch_write(p) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p)))
#else
#define av_prefetch_write(p) __builtin_prefetch(p, 1)
#endif

/*
 * Behind the copy of a structure that a peer may be writing: its words stay what they are in the
 * copy. Without it, the compiler may read the original once more, after the copy was checked.
 */
#define AV_COPIED() __asm__ volatile("" ::: "memory")

/*
 * For a function that reads, a word at a time, what others may be writing. Its answer only explains
 * or counts, or is confirmed under a lock before use. ThreadSanitizer ignores it. Also for a
 * function of a forked child, where no other thread is left.
 */
#define AV_RACY __attribute__((no_sanitize("thread")))

/* Range arithmetic that cannot wrap. No other file writes "addr + len > end". */

/* Does [addr, addr + len) lie within [base, base + size)? In bytes; forms no sum. */
static inline bool av_range_within(uint64_t addr, uint64_t len, uint64_t base, uint64_t size)
{
	return addr >= base && len <= size && addr - base <= size - len;
}

/* Does addr + len exceed 64 bits? A range up to the last byte, addr + len == 2^64, does not. */
static inline bool av_range_wraps(uint64_t addr, uint64_t len)
{
	return len != 0 && addr > UINT64_MAX - (len - 1);
}

/* Round @v up to a multiple of the power of two @align; @v is at most UINT64_MAX - align + 1. */
static inline uint64_t av_round_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

#endif
