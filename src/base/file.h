/* SPDX-License-Identifier: MIT */
/* Our own files and descriptors: memory that processes share. */
#pragma once

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/compiler.h"

/*
 * A descriptor of ours. The program may close it, or replace it by dup2(2). So it has a high
 * number, which programs rarely use, and each use first checks that the number still is our file:
 * we never touch a file of the program. What the program does between check and use goes unnoticed;
 * but see av_own_fd_use().
 */

struct av_own_fd {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
};

#define AV_OWN_FD_NONE ((struct av_own_fd){.fd = -1})

/*
 * Own @fd, which was just opened close-on-exec. It may get another number. Return: false: @fd is
 * -1, or fstat(2) fails; @fd is closed then, and errno says why
 */
AV_MUST_USE bool av_own_fd_keep(struct av_own_fd *own, int fd);

/* The descriptor. -1, with errno EBADF: there is none, or the program owns the number now. */
int av_own_fd(const struct av_own_fd *own);

/* Close it if it is still ours. Keeps errno. */
void av_own_fd_close(struct av_own_fd *own);

/* Of a variable: the descriptor in it is closed at the end of its block. -1: none. Keeps errno. */
void av_fd_close(const int *fd);
#define AV_CLOSED __attribute__((cleanup(av_fd_close)))

/*
 * The descriptor for one system call that does not block, on the path of packets. Asks the kernel
 * whether the number is ours once a tick of the clock (av_now_coarse_ns()), and after each
 * av_own_fd_replace_begin(). That waits until av_own_fd_done(), so that the number stays ours.
 * @looked: when it was found ours last; 0: never. Return: as av_own_fd(); -1: nothing is to be done
 */
int av_own_fd_use(const struct av_own_fd *own, _Atomic uint64_t *looked);
void av_own_fd_done(void);

/* Before the first use in this process, which may be a forked child. No thread uses one yet. */
void av_own_fd_guard(void);

/*
 * The program is about to close the numbers @first to @last, or to replace them. Waits for their
 * users, but not for ever: the caller may have interrupted one. Async-signal-safe.
 * Return: true: av_own_fd_replace_end() is to be called when that is done; false: none is ours
 */
AV_MUST_USE bool av_own_fd_replace_begin(unsigned int first, unsigned int last);
void av_own_fd_replace_end(void);

/* memfd_create(2), sealable, never executable where the kernel can. @flags: 0 or MFD_CLOEXEC */
AV_MUST_USE int av_memfd(const char *name, unsigned int flags);

/*
 * Memory for several processes: memfd_create(2), of a fixed size, without pages yet; no file system
 * limits it. @name: in /proc/PID/maps. Return: 0 or -errno; EFBIG: above RLIMIT_FSIZE
 */
AV_MUST_USE int av_anonymous(struct av_own_fd *own, const char *name, uint64_t bytes);

/* Back a part with pages, so that accesses cannot fail. Return: 0 or -errno: some may be there */
AV_MUST_USE int av_file_back(int fd, uint64_t offset, uint64_t bytes);

/* May the file have that size? Beyond RLIMIT_FSIZE, SIGXFSZ would kill the program: -EFBIG; or 0 */
AV_MUST_USE static inline int av_file_may_have(int fd, uint64_t bytes)
{
	struct rlimit rl;
	struct stat st;

	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur >= bytes)
		return 0;
	return fstat(fd, &st) == 0 && st.st_size >= (off_t)bytes ? 0 : -EFBIG;
}

#define AV_SPARSE_PAGE 4096u /* of a file; the kernel's may be larger */

/*
 * Find the first part of [*at, end) that is no hole: [*at, *part_end) afterwards. The page behind a
 * hole is one part, what follows it another. Holes read as zeros; whoever skips them leaves them
 * without memory. If the kernel cannot tell, there is no hole. Return: false: all of it is a hole.
 * System calls only
 */
AV_MUST_USE bool av_sparse_next(int fd, uint64_t *at, uint64_t end, uint64_t *part_end);

/* Read @bytes at offset @at to @to, which is all zeros. Return: false: not all could be read */
AV_MUST_USE bool av_sparse_read(int fd, uint64_t at, uint64_t bytes, void *to);

/*
 * Between these calls, which may be nested, the calling thread sees no virtual files
 * (host/vsysfs.h): the system's libibverbs, without a driver for our devices, shall not find them.
 */
void av_real_files_begin(void);
void av_real_files_end(void);

/* Is the calling thread between them? */
bool av_real_files_only(void);
