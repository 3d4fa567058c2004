/* SPDX-License-Identifier: MIT */
/*
 * The virtual sysfs: which file system it is. libudev and others make sure that what they read is
 * the kernel's word.
 */
#include "preload/vsysfs_libc.h"

#include <string.h>

/* What the kernel says of the next directory above that it has, and that may be looked at. */
static int statfs_node(const struct av_vsysfs_node *node, struct statfs *st)
{
	char path[AV_VSYSFS_PATH_BYTES];
	int saved = errno, ret;

	memcpy(path, node->path, strlen(node->path) + 1);
	while ((ret = av_next_statfs()(path[0] ? path : "/", st)) != 0 && path[0])
		*strrchr(path, '/') = '\0';
	if (ret == 0)
		errno = saved;
	return ret;
}

static int statfs_suspect(const char *path, struct statfs *st)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim_path(&path, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, &claim))
		return av_next_statfs()(path, st);
	return claim.error ? av_vlibc_fail(claim.error) : statfs_node(&claim.walk.node, st);
}

AV_LIBC(int, statfs, (const char *path, struct statfs *st))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return statfs_suspect(path, st);
	return av_next_statfs()(path, st);
}

AV_LIBC(int, fstatfs, (int fd, struct statfs *st))
{
	struct av_vsysfs_node node;
	int saved = errno;
	struct stat is;

	if (av_unlikely(atomic_load_explicit(&av_vlibc_handed_out, memory_order_relaxed)) &&
	    !av_next_fstat()(fd, &is) && av_vlibc_node_of(fd, &is, &node))
		return statfs_node(&node, st);
	errno = saved;
	return av_next_fstatfs()(fd, st);
}

AV_LIBC_ALIAS(statfs64, statfs);
AV_LIBC_ALIAS(fstatfs64, fstatfs);
