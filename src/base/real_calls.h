/* SPDX-License-Identifier: MIT */
/* Calls that bypass hooks: ours, and those of the program. */
#pragma once

#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

/*
 * System calls on our own sockets. The functions of the C library may be hooked: by ours
 * (host/netlink_hooks.c), or by librspreload, which turns sockets of TCP and UDP into ones of
 * librdmacm, which use this library. Return: as the C library; but they are no cancellation points
 */

/* Defines av_raw_NAME(): system call @number. */
#define AV_RAW_CALL(type, name, number, params, ...)             \
	static inline type av_raw_##name params                  \
	{                                                        \
		return (type)syscall(SYS_##number, __VA_ARGS__); \
	}

AV_RAW_CALL(int, socket, socket, (int domain, int type, int protocol), domain, type, protocol)
AV_RAW_CALL(int, bind, bind, (int fd, const struct sockaddr *address, socklen_t bytes), fd, address,
	    bytes)
AV_RAW_CALL(int, connect, connect, (int fd, const struct sockaddr *address, socklen_t bytes), fd,
	    address, bytes)
AV_RAW_CALL(int, listen, listen, (int fd, int backlog), fd, backlog)
AV_RAW_CALL(int, getsockname, getsockname, (int fd, struct sockaddr *address, socklen_t *bytes), fd,
	    address, bytes)
AV_RAW_CALL(int, getsockopt, getsockopt,
	    (int fd, int level, int name, void *value, socklen_t *bytes), fd, level, name, value,
	    bytes)
AV_RAW_CALL(int, setsockopt, setsockopt,
	    (int fd, int level, int name, const void *value, socklen_t bytes), fd, level, name,
	    value, bytes)
AV_RAW_CALL(ssize_t, send, sendto, (int fd, const void *from, size_t bytes, int flags), fd, from,
	    bytes, flags, NULL, 0)
AV_RAW_CALL(ssize_t, sendto, sendto,
	    (int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to,
	     socklen_t to_bytes),
	    fd, from, bytes, flags, to, to_bytes)
AV_RAW_CALL(ssize_t, recv, recvfrom, (int fd, void *to, size_t bytes, int flags), fd, to, bytes,
	    flags, NULL, NULL)
AV_RAW_CALL(ssize_t, sendmsg, sendmsg, (int fd, const struct msghdr *message, int flags), fd,
	    message, flags)
AV_RAW_CALL(ssize_t, recvmsg, recvmsg, (int fd, struct msghdr *message, int flags), fd, message,
	    flags)

/* @timeout_ms: negative: no timeout */
static inline int av_raw_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec time = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};

	return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &time, NULL, 0);
}

/*
 * At file scope, before AV_NEXT_OF(): look up the next function of our function's name when this
 * library is loaded. Not later: dlsym() takes a lock, which a thread holds while it loads a library
 * whose constructor may wait for the caller.
 */
#define AV_FIND_NEXT(name)                                                                 \
	static void *next_##name;                                                          \
	__attribute__((constructor)) static void find_next_##name(void)                    \
	{                                                                                  \
		__atomic_store_n(&next_##name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED); \
		if (!__atomic_load_n(&next_##name, __ATOMIC_RELAXED))                      \
			(void)dlerror(); /* the program must not find our error message */ \
	}                                                                                  \
	struct av_next

/* That function: AV_NEXT_OF(dlopen)(file, mode). Looked up if not yet; allocates nothing. */
#define AV_NEXT_OF(name)                                                              \
	({                                                                            \
		if (av_unlikely(!__atomic_load_n(&next_##name, __ATOMIC_RELAXED)))    \
			find_next_##name();                                           \
		(__typeof__(&(name)))__atomic_load_n(&next_##name, __ATOMIC_RELAXED); \
	})

/*
 * System calls for our own mappings. Registration caches (Open MPI's, UCX's) patch the C library's
 * mmap(), munmap() and madvise() to learn which memory goes away, and hold their locks while they
 * register. They need not know of our mappings. Async-signal-safe. ThreadSanitizer must see all
 * mappings, so its builds call the C library.
 */

#if defined(__SANITIZE_THREAD__)
#define av_mmap	    mmap
#define av_munmap   munmap
#define av_madvise  madvise
#define av_mprotect mprotect
#else

AV_MUST_USE static inline void *av_mmap(void *addr, size_t bytes, int prot, int flags, int fd,
					off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd,
			       offset); /* NOLINT: MAP_FAILED is -1 */
}

static inline int av_munmap(void *addr, size_t bytes)
{
	return (int)syscall(SYS_munmap, addr, bytes);
}

static inline int av_mprotect(void *addr, size_t bytes, int prot)
{
	return (int)syscall(SYS_mprotect, addr, bytes, prot);
}

static inline int av_madvise(void *addr, size_t bytes, int advice)
{
	return (int)syscall(SYS_madvise, addr, bytes, advice);
}

#endif
