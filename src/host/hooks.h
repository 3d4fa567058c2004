/* SPDX-License-Identifier: MIT */
/* How the preloaded library replaces functions of the C library, and the answers of netlink. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/nlmsg.h"

/* === exports ===================================================================== */

/*
 * Declares what we export as @name. Inside the library it has another name, without the attributes
 * of the C library's declaration: non-null pointers, checked or redirected calls.
 */
#define AV_LIBC_EXPORT(result, name, params) result av_libc_##name params __asm__(#name) AV_EXPORT

/*
 * Declares av_next_NAME(), the function to which a hook passes calls on: the C library's, or that
 * of another library loaded before it. NULL only if no program can call the hook.
 */
#define AV_LIBC_NEXT(result, name, params)    \
	AV_LIBC_EXPORT(result, name, params); \
	__typeof__(&av_libc_##name) av_next_##name(void)

/*
 * Begins a hook, and finds the next function before the program starts: dlsym() takes a lock, which
 * neither a signal handler nor a forked child should do. Earlier calls look it up.
 */
#define AV_LIBC(result, name, params)                                                  \
	AV_LIBC_NEXT(result, name, params);                                            \
	static void *_Atomic next_##name;                                              \
	__attribute__((constructor)) static void find_next_##name(void)                \
	{                                                                              \
		(void)av_libc_find(#name, &next_##name);                               \
	}                                                                              \
	__typeof__(&av_libc_##name) av_next_##name(void)                               \
	{                                                                              \
		void *next = atomic_load_explicit(&next_##name, memory_order_relaxed); \
                                                                                       \
		return av_likely(next) ? next : av_libc_find(#name, &next_##name);     \
	}                                                                              \
	result av_libc_##name params

/* For AV_LIBC(): look up the next function called @name, and store it in @next. Keeps errno */
void *av_libc_find(const char *name, void *_Atomic *next);

/* Exports a function of the same file under a second name. */
#define AV_LIBC_ALIAS(name, target)                                                 \
	extern __typeof__(av_libc_##target) av_libc_##name __asm__(#name) AV_EXPORT \
		__attribute__((alias(#target)))

/* === netlink hooks =============================================================== */

/*
 * Send a request to the kernel, and add its answers to @out: of a dump all parts and an end. Makes
 * system calls, needs a descriptor. Return: false: it has no RDMA devices, and nothing was added
 */
AV_MUST_USE bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out);

/* === netlink resource ============================================================ */

/* Answer all requests of a datagram, aligned to 4. As av_port_gids(); no memory: out->failed */
void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out);
