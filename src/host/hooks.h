/* SPDX-License-Identifier: MIT */
/* How the preloaded library replaces functions of the C library, and the answers of netlink. */
#ifndef AV_HOST_HOOKS_H
#define AV_HOST_HOOKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/nlmsg.h"

/* === exports ===================================================================== */

/*
 * Begins the definition of what we export as @name. Inside the library it has another name, without
 * the attributes of the C library's declaration: non-null pointers, checked or redirected calls.
 */
#define AV_LIBC(result, name, params)                          \
	result av_libc_##name params __asm__(#name) AV_EXPORT; \
	result av_libc_##name params

/* Exports a function of the same file under a second name. */
#define AV_LIBC_ALIAS(name, target)                                                 \
	extern __typeof__(av_libc_##target) av_libc_##name __asm__(#name) AV_EXPORT \
		__attribute__((alias(#target)))

/* === netlink hooks =============================================================== */

/*
 * Send a request to the kernel, and add its answers to @out, if there are any: of a dump all parts
 * and an end. Context: makes system calls, needs a descriptor
 * Return: false: the kernel has no RDMA devices, and nothing was added
 */
AV_MUST_USE bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out);

/* === netlink resource ============================================================ */

/*
 * Write the answers to all requests of a datagram (aligned to 4 bytes).
 * Context: as av_port_gids(); allocates, and sets out->failed without memory
 */
void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out);

#endif
