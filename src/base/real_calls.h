/* SPDX-License-Identifier: MIT */
/*
 * Calls that evade hooks: the functions behind ours and behind the program's of the same names.
 */
#ifndef AV_BASE_REAL_CALLS_H
#define AV_BASE_REAL_CALLS_H

#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

/*
 * Sockets of ours, by the kernel's own calls. Functions of libc may be others' by now: librspreload
 * makes sockets of TCP and UDP to ones of librdmacm, which connect through this library. And they
 * may be ours (host/netlink_hooks.c). None is a point at which a thread is cancelled.
 *
 * As the functions of the C library: -1 and errno.
 */

static inline int av_raw_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static inline int av_raw_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	return (int)syscall(SYS_bind, fd, address, bytes);
}

static inline int av_raw_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	return (int)syscall(SYS_connect, fd, address, bytes);
}

static inline int av_raw_listen(int fd, int backlog)
{
	return (int)syscall(SYS_listen, fd, backlog);
}

static inline int av_raw_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
	return (int)syscall(SYS_getsockname, fd, address, bytes);
}

static inline int av_raw_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	return (int)syscall(SYS_getsockopt, fd, level, name, value, bytes);
}

static inline int av_raw_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	return (int)syscall(SYS_setsockopt, fd, level, name, value, bytes);
}

static inline ssize_t av_raw_send(int fd, const void *from, size_t bytes, int flags)
{
	return syscall(SYS_sendto, fd, from, bytes, flags, NULL, 0);
}

static inline ssize_t av_raw_recv(int fd, void *to, size_t bytes, int flags)
{
	return syscall(SYS_recvfrom, fd, to, bytes, flags, NULL, NULL);
}

static inline ssize_t av_raw_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline ssize_t av_raw_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

/* @timeout_ms: negative: none */
static inline int av_raw_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec time = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};

	return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &time, NULL, 0);
}

/*
 * Calls that evade hooks: the functions behind ours and behind the program's of the same names.
 */

/* The function behind ours of the same name: the C library's, or another library's. */

/*
 * At file scope, before AV_NEXT_OF(): look it up when this library is loaded. dlsym() takes a lock,
 * and a thread that loads a library, whose constructor waits for the caller, has it.
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

/*
 * As a typed expression: AV_NEXT_OF(dlopen)(file, mode). Before the constructor has run it is
 * looked up here, which takes no memory.
 */
#define AV_NEXT_OF(name)                                                              \
	({                                                                            \
		if (av_unlikely(!__atomic_load_n(&next_##name, __ATOMIC_RELAXED)))    \
			find_next_##name();                                           \
		(__typeof__(&(name)))__atomic_load_n(&next_##name, __ATOMIC_RELAXED); \
	})

/*
 * Changes of the address space that bypass the C library. Registration caches (Open MPI's, UCX's)
 * patch its munmap(), mremap(), madvise() and mmap() to learn of memory that goes away, with locks
 * of their own held while they register. These mappings are our own: no cache need hear. A new
 * mapping, or memory of the program that does go away, may use the C library.
 *
 * Each is the system call of its name, async-signal-safe. ThreadSanitizer must see all mappings:
 * there they are the C library's functions.
 */

#if defined(__SANITIZE_THREAD__)
#define av_mmap	    mmap
#define av_munmap   munmap
#define av_mremap   mremap
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

/* @to: the new address, with MREMAP_FIXED */
AV_MUST_USE static inline void *av_mremap(void *addr, size_t old_bytes, size_t bytes, int flags,
					  void *to)
{
	return (void *)syscall(SYS_mremap, addr, old_bytes, bytes, flags, to); /* NOLINT */
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

/*
 * Does this thread want to see the real files? All others see the virtual files (host/vsysfs.h).
 * Needed to ask the system's own library for its devices: it would find ours, and complain that no
 * driver knows them.
 */

/* Between these calls the calling thread sees no virtual file. Calls may be nested. */
void av_real_files_begin(void);
void av_real_files_end(void);

/* Is the calling thread between them? */
bool av_real_files_only(void);

#endif
