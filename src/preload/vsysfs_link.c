/* SPDX-License-Identifier: MIT */
/* The virtual sysfs: symbolic links and canonical paths. */
#include "preload/vsysfs_libc.h"

#include <stdlib.h>
#include <string.h>

static ssize_t readlink_suspect(int dirfd, const char *path, char *target, size_t size)
{
	char bytes[AV_VSYSFS_CONTENT_BYTES];
	struct av_vlibc_claim claim;
	ssize_t len;

	if (!av_vlibc_claim(&dirfd, &path, AV_VLIBC_EMPTY, &claim))
		return av_next_readlinkat()(dirfd, path, target, size);
	if (claim.error)
		return av_vlibc_fail(claim.error);
	if (claim.walk.node.kind != AV_VSYSFS_LINK || !size)
		return av_vlibc_fail(*path || !size ? EINVAL : ENOENT);
	len = av_vsysfs_read(&claim.walk.node, bytes);
	if (len < 0)
		return av_vlibc_fail(ENOENT);
	if ((size_t)len > size)
		len = (ssize_t)size;
	memcpy(target, bytes, (size_t)len);
	return len;
}

AV_LIBC(ssize_t, readlink, (const char *path, char *target, size_t size))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return readlink_suspect(AT_FDCWD, path, target, size);
	return av_next_readlink()(path, target, size);
}

AV_LIBC(ssize_t, readlinkat, (int dirfd, const char *path, char *target, size_t size))
{
	if (av_unlikely(av_vlibc_suspects(dirfd, path)))
		return readlink_suspect(dirfd, path, target, size);
	return av_next_readlinkat()(dirfd, path, target, size);
}

/* For fortified programs, which the C library ends if the buffer is smaller than claimed. */

AV_LIBC(ssize_t, __readlink_chk, (const char *path, char *target, size_t size, size_t room))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)) && size <= room)
		return readlink_suspect(AT_FDCWD, path, target, size);
	return av_next___readlink_chk()(path, target, size, room);
}

AV_LIBC(ssize_t, __readlinkat_chk,
	(int dirfd, const char *path, char *target, size_t size, size_t room))
{
	if (av_unlikely(av_vlibc_suspects(dirfd, path)) && size <= room)
		return readlink_suspect(dirfd, path, target, size);
	return av_next___readlinkat_chk()(dirfd, path, target, size, room);
}

static char *realpath_suspect(const char *path, char *resolved)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim_path(&path, AV_VLIBC_FOLLOW, &claim))
		return av_next_realpath()(path, resolved);
	if (claim.error)
		return av_vlibc_fail_null(claim.error);
	/* The caller's buffer has PATH_MAX bytes. */
	return resolved ? memcpy(resolved, claim.walk.node.path, strlen(claim.walk.node.path) + 1)
			: strdup(claim.walk.node.path);
}

AV_LIBC(char *, realpath, (const char *path, char *resolved))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return realpath_suspect(path, resolved);
	return av_next_realpath()(path, resolved);
}

AV_LIBC(char *, __realpath_chk, (const char *path, char *resolved, size_t room))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)) && room >= PATH_MAX)
		return realpath_suspect(path, resolved);
	return av_next___realpath_chk()(path, resolved, room);
}

AV_LIBC(char *, canonicalize_file_name, (const char *path))
{
	return av_libc_realpath(path, NULL);
}
