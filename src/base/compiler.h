/* SPDX-License-Identifier: MIT */
/* Attributes and small macros that every file may use. Knows nothing of RDMA. */
#ifndef AV_BASE_COMPILER_H
#define AV_BASE_COMPILER_H

#include <stddef.h>

/*
 * Exported symbols. Everything is hidden (-fvisibility=hidden) but what carries AV_EXPORT. Names
 * listed in libanyverbs.map get the field's version nodes (IBVERBS_1.0 ...); an exported name that
 * is not listed stays unversioned, and the dynamic linker lets it satisfy a reference with any
 * version: that is how the few private or C library symbols that we answer for are provided without
 * depending on one release's version name.
 */
#define AV_EXPORT __attribute__((visibility("default")))

#define AV_MUST_USE	__attribute__((warn_unused_result))
#define AV_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Rarely called: kept out of the functions that call it, so that they need fewer registers. */
#define AV_SELDOM __attribute__((noinline, cold))
/* What it calls is inlined, whole: a path of every message, where saving registers for each call
 * counts. */
#define AV_FLAT		 __attribute__((flatten))
#define AV_CACHE_LINE	 64
#define AV_ALIGNED(n)	 __attribute__((aligned(n)))
#define AV_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * A thread's own small variable, reached without a call. The library is preloaded or linked, and
 * then such variables have their place from the start; loaded later, it takes a few bytes of what
 * the C library keeps for that.
 */
#define AV_TLS_FAST __attribute__((tls_model("initial-exec")))

#define av_likely(x)   __builtin_expect(!!(x), 1)
#define av_unlikely(x) __builtin_expect(!!(x), 0)

/* The structure that contains @member, given a pointer to the member. */
#define av_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * For ThreadSanitizer, which sees one process: what a thread released at @word, and this one got by
 * way of another process that acquired it there, was not got in a race. No instruction otherwise.
 */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define AV_CAME_BY_PEER(word) __tsan_acquire(word)
#else
#define AV_CAME_BY_PEER(word) ((void)(word))
#endif

/* One turn of a spin loop: tells the core that a sibling thread may have the pipeline. */
static inline void av_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/*
 * Have the cache line at @p brought in to be written, away from other cores' caches. A hint, of any
 * address. The compiler's own makes a prefetch for reading of it where the processor is not named,
 * which leaves the line shared: the store waits for the others to let go of it after all.
 * Processors without it do nothing.
 */
static inline void av_prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/*
 * A function that reads what others may be writing, a word at a time, and whose answer is confirmed
 * under a lock before it is used: ThreadSanitizer does not look.
 */
#define AV_RACY __attribute__((no_sanitize("thread")))

#endif
