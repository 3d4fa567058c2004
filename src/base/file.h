/* SPDX-License-Identifier: MIT */
/*
 * Files of the library's own, which have memory for what processes share.
 */
#ifndef AV_BASE_FILE_H
#define AV_BASE_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/compiler.h"

/*
 * Descriptors of ours in a program that may close any, replace it by dup2(2), or closefrom(3). They
 * live at high numbers, which programs rarely touch, and each use first sees whether the number
 * still is our file. So the library never reads, writes, locks or closes a file of the program's.
 * What the program does to the number between the look and the use cannot be noticed.
 */

struct av_own_fd {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
};

#define AV_OWN_FD_NONE ((struct av_own_fd){.fd = -1})

/*
 * Keep @fd, which was just opened close-on-exec: it may move to another number. Return: false: @fd
 * is -1, or cannot be asked for its file; it is closed then, and errno says why
 */
AV_MUST_USE bool av_own_fd_keep(struct av_own_fd *own, int fd);

/* The descriptor; -1, with errno EBADF: there is none, or it is the program's by now. */
int av_own_fd(const struct av_own_fd *own);

/* Close it if it is ours still. Keeps errno. */
void av_own_fd_close(struct av_own_fd *own);

/*
 * Files of the library's own, which have memory for what processes share.
 */

/*
 * Anonymous memory that several processes map: memfd_create(2). The kernel frees it with its last
 * user, and no file system's size limits it.
 */

/*
 * memfd_create(2) with seals permitted, and never executable where the kernel knows that. @flags: 0
 * or MFD_CLOEXEC. Return: descriptor; -1 and errno
 */
AV_MUST_USE int av_memfd(const char *name, unsigned int flags);

/*
 * Make some, without pages yet. Its size is fixed. @name: for who reads /proc/PID/maps. Return: 0
 * or -errno; EFBIG: more than RLIMIT_FSIZE
 */
AV_MUST_USE int av_anonymous(struct av_own_fd *own, const char *name, uint64_t bytes);

/* Memory for a file of ours, before it is needed. */

/*
 * Back a part of the file with real pages: touching them cannot fail. Return: 0 or -errno; then a
 * part of it may be backed
 */
AV_MUST_USE int av_file_back(int fd, uint64_t offset, uint64_t bytes);

/* RLIMIT_FSIZE is the program's: a file of ours that grows beyond it would kill it by SIGXFSZ. */

/* May the file be made so large, or is it already? Return: 0 or -EFBIG */
AV_MUST_USE static inline int av_file_may_have(int fd, uint64_t bytes)
{
	struct rlimit rl;
	struct stat st;

	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur >= bytes)
		return 0;
	return fstat(fd, &st) == 0 && st.st_size >= (off_t)bytes ? 0 : -EFBIG;
}

/*
 * The parts of a sparse file that have memory. Holes read as zeros; not to touch them keeps what is
 * large and hardly used small. System calls only.
 */

/*
 * The first part of [*at, end) that is no hole: [*at, *part_end) from then on. What the kernel does
 * not tell counts as no hole. Return: false: all of it is
 */
AV_MUST_USE bool av_sparse_next(int fd, uint64_t *at, uint64_t end, uint64_t *part_end);

/* Read @bytes from @at on to @to, where zeros are already. Return: false: not all could be read */
AV_MUST_USE bool av_sparse_read(int fd, uint64_t at, uint64_t bytes, void *to);

#endif
