/* SPDX-License-Identifier: MIT */
/* The virtual sysfs: opening. */
#include "preload/vsysfs_libc.h"

#include <limits.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "preload/cm_hooks.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/*
 * read(2) at the largest possible offset fails with EINVAL, because the range to read would end
 * beyond it. At any other offset behind the end of the file it would succeed and return 0.
 */
#define UNREADABLE LLONG_MAX

static int create_memfd(const char *name, int flags)
{
	unsigned int cloexec = flags & O_CLOEXEC ? MFD_CLOEXEC : 0;
	/* Kernels from 6.3 on warn, or refuse if so configured, without an explicit choice. */
	int fd = memfd_create(name, cloexec | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, cloexec | MFD_ALLOW_SEALING);
	return fd;
}

/* Write the content. Return: 0, or -1 and errno. */
static int fill_memfd(int fd, const char *bytes, size_t len)
{
	struct rlimit limit;

	/* A write(2) beyond this limit would raise a fatal signal. */
	if (len && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < len)
		return av_vlibc_fail(EFBIG);
	if (len && pwrite(fd, bytes, len, 0) != (ssize_t)len)
		return -1;
	return 0;
}

int av_vlibc_descriptor(const struct av_vsysfs_node *node, int flags)
{
	char bytes[AV_VSYSFS_CONTENT_BYTES];
	ssize_t len = -EINVAL;
	int fd, err;

	if (node->kind == AV_VSYSFS_FILE && !(flags & O_PATH))
		len = av_vsysfs_read(node, bytes);
	fd = create_memfd(node->path, flags);
	if (fd < 0)
		return -errno;
	if (fill_memfd(fd, bytes, len < 0 ? 0 : (size_t)len) ||
	    (len < 0 && lseek(fd, UNREADABLE, SEEK_SET) < 0) ||
	    fchmod(fd, AV_VLIBC_MARK & ~(mode_t)S_IFMT)) {
		err = errno;
		close(fd);
		return -err;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	atomic_store_explicit(&av_vlibc_handed_out, true, memory_order_relaxed);
	return fd;
}

/* May a node be opened with these flags? Return: 0 or errno. */
static int check_flags(const struct av_vsysfs_node *node, int flags)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);

	if (flags & O_PATH)
		return (flags & O_DIRECTORY) && node->kind != AV_VSYSFS_DIR ? ENOTDIR : 0;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return node->kind == AV_VSYSFS_DIR ? EOPNOTSUPP : ENOTDIR;
	if ((flags & O_CREAT) && (flags & O_EXCL))
		return EEXIST;
	if (node->kind == AV_VSYSFS_DIR)
		return writes || (flags & O_CREAT) ? EISDIR : 0;
	if (node->kind == AV_VSYSFS_LINK) /* reached only if links are not followed */
		return flags & O_DIRECTORY ? ENOTDIR : ELOOP;
	if (flags & O_DIRECTORY)
		return ENOTDIR;
	if (node->kind == AV_VSYSFS_CHAR)
		return node->dev ? ENXIO : 0; /* there is no driver behind a device's */
	return writes ? EACCES : 0;
}

static int open_cm(int flags)
{
	int fd = av_cm_hooks_open(flags);

	if (fd >= 0)
		atomic_store_explicit(&av_vlibc_handed_out, true, memory_order_relaxed);
	return fd;
}

int av_vlibc_open_node(const struct av_vsysfs_node *node, int flags)
{
	AV_UNCANCELLED;
	int err = check_flags(node, flags);
	int fd;

	if (err)
		return av_vlibc_fail(err);
	if (node->kind == AV_VSYSFS_CHAR && !(flags & O_PATH))
		return open_cm(flags);
	fd = av_vlibc_descriptor(node, flags);
	return fd < 0 ? av_vlibc_fail(-fd) : fd;
}

static int open_suspect(int dirfd, const char *path, int flags, mode_t mode)
{
	bool keep = (flags & O_NOFOLLOW) || ((flags & O_CREAT) && (flags & O_EXCL));
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim(&dirfd, &path, AV_VLIBC_UNION | (keep ? 0 : AV_VLIBC_FOLLOW), &claim))
		return av_next_openat()(dirfd, path, flags, mode);
	pthread_testcancel(); /* as in open(2), before anything is done */
	if (claim.error == ENOENT && claim.walk.leaf_missing && (flags & O_CREAT) &&
	    !(flags & O_PATH))
		return av_vlibc_fail(EACCES); /* nothing can be created in the tree */
	if (claim.error)
		return av_vlibc_fail(claim.error);
	return av_vlibc_open_node(&claim.walk.node, flags);
}

/* The mode argument exists only if the call may create a file. */
#define TAKES_MODE(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

static mode_t take_mode(int flags, va_list *args)
{
	return TAKES_MODE(flags) ? va_arg(*args, mode_t) : 0;
}

AV_LIBC(int, open, (const char *path, int flags, ...))
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = take_mode(flags, &args);
	va_end(args);
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return open_suspect(AT_FDCWD, path, flags, mode);
	return av_next_open()(path, flags, mode);
}

AV_LIBC(int, openat, (int dirfd, const char *path, int flags, ...))
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = take_mode(flags, &args);
	va_end(args);
	if (av_unlikely(av_vlibc_suspects(dirfd, path)))
		return open_suspect(dirfd, path, flags, mode);
	return av_next_openat()(dirfd, path, flags, mode);
}

/* For fortified calls with two arguments, which the C library ends if they have O_CREAT. */
AV_LIBC(int, __open_2, (const char *path, int flags))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)) && !TAKES_MODE(flags))
		return open_suspect(AT_FDCWD, path, flags, 0);
	return av_next___open_2()(path, flags);
}

AV_LIBC(int, __openat_2, (int dirfd, const char *path, int flags))
{
	if (av_unlikely(av_vlibc_suspects(dirfd, path)) && !TAKES_MODE(flags))
		return open_suspect(dirfd, path, flags, 0);
	return av_next___openat_2()(dirfd, path, flags);
}

AV_LIBC_ALIAS(open64, open);
AV_LIBC_ALIAS(openat64, openat);
AV_LIBC_ALIAS(__open64_2, __open_2);
AV_LIBC_ALIAS(__openat64_2, __openat_2);

/* The open(2) flags of an fopen(3) mode, or -EINVAL. */
static int flags_of_mode(const char *mode)
{
	int flags = O_RDONLY;

	if (*mode == 'w')
		flags = O_WRONLY | O_CREAT | O_TRUNC;
	else if (*mode == 'a')
		flags = O_WRONLY | O_CREAT | O_APPEND;
	else if (*mode != 'r')
		return -EINVAL;
	for (mode++; *mode && *mode != ','; mode++)
		if (*mode == '+')
			flags = (flags & ~O_ACCMODE) | O_RDWR;
		else if (*mode == 'x')
			flags |= O_EXCL;
		else if (*mode == 'e')
			flags |= O_CLOEXEC;
	return flags;
}

static FILE *fopen_node(const struct av_vsysfs_node *node, const char *mode)
{
	AV_UNCANCELLED;
	int flags = flags_of_mode(mode);
	FILE *file;
	int fd, err;

	if (flags < 0)
		return av_vlibc_fail_null(EINVAL);
	fd = av_vlibc_open_node(node, flags);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, mode);
	if (!file) {
		err = errno;
		close(fd);
		errno = err;
	}
	return file;
}

static FILE *fopen_suspect(const char *path, const char *mode)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim_path(&path, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, &claim))
		return av_next_fopen()(path, mode);
	pthread_testcancel(); /* the C library's calls open(2) */
	if (claim.error == ENOENT && claim.walk.leaf_missing && *mode != 'r')
		return av_vlibc_fail_null(EACCES);
	if (claim.error)
		return av_vlibc_fail_null(claim.error);
	return fopen_node(&claim.walk.node, mode);
}

AV_LIBC(FILE *, fopen, (const char *path, const char *mode))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return fopen_suspect(path, mode);
	return av_next_fopen()(path, mode);
}

AV_LIBC_ALIAS(fopen64, fopen);
