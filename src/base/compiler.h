/* SPDX-License-Identifier: MIT */
/* Attributes, small macros, and range arithmetic. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An exported symbol; all others are hidden. Names in libanyverbs.map get their version nodes.
 * Others are unversioned, so they satisfy any version's references, as to libc's.
 */
#define AV_EXPORT __attribute__((visibility("default")))

#define AV_MUST_USE	__attribute__((warn_unused_result))
#define AV_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Rarely called. Never inlined, so callers need fewer registers. */
#define AV_COLD		 __attribute__((noinline, cold))
#define AV_CACHE_LINE	 64
#define AV_ALIGNED(n)	 __attribute__((aligned(n)))
#define AV_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* A small thread-local variable, accessed without a call; loaded late, from a reserve of libc's. */
#define AV_TLS_FAST __attribute__((tls_model("initial-exec")))

#define av_likely(x)   __builtin_expect(!!(x), 1)
#define av_unlikely(x) __builtin_expect(!!(x), 0)

/* The structure that contains @member, given a pointer to the member. */
#define av_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void av_errno_back(const int *before)
{
	errno = *before;
}

/* Unchanged by what follows in the block: errno. */
#define AV_ERRNO_KEPT \
	const int av_errno_before __attribute__((cleanup(av_errno_back), unused)) = errno

/*
 * Tell ThreadSanitizer, which sees one process only, that this access is no race: the data came
 * from a process that acquired @word from a thread here. No instruction in other builds.
 */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define AV_CAME_BY_PEER(word) __tsan_acquire(word)
#else
#define AV_CAME_BY_PEER(word) ((void)(word))
#endif

/* One turn of a spin loop: a sibling thread of the core may use the pipeline. */
static inline void av_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/* Prefetch any address for writing; the builtin, without a named processor, would for reading. */
#if defined(__x86_64__)
#define av_prefetch_write(p) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p)))
#else
#define av_prefetch_write(p) __builtin_prefetch(p, 1)
#endif

/* After copying what a peer may change: the compiler shall not read the original again. */
#define AV_COPIED() __asm__ volatile("" ::: "memory")

/*
 * ThreadSanitizer ignores this function. It reads, word by word, what others may write, and its
 * answer only explains or counts, or is confirmed under a lock or by a version; or its stores
 * change nothing; or it runs alone in a forked child.
 */
#define AV_RACY __attribute__((no_sanitize("thread")))

/* Is [addr, addr + len) within [base, base + size)? A sum could wrap: nobody else computes one. */
static inline bool av_range_within(uint64_t addr, uint64_t len, uint64_t base, uint64_t size)
{
	return addr >= base && len <= size && addr - base <= size - len;
}

/* Does the range leave 64 bits? addr + len == 2^64 does not: it ends with the last byte. */
static inline bool av_range_wraps(uint64_t addr, uint64_t len)
{
	return len != 0 && addr > UINT64_MAX - (len - 1);
}

/* Round @v, at most UINT64_MAX - align + 1, up to a multiple of @align, a power of two. */
static inline uint64_t av_round_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}
