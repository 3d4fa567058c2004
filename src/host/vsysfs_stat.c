/* SPDX-License-Identifier: MIT */
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/vsysfs.h"

AV_LIBC_NEXT(int, statfs, (const char *, struct statfs *));
AV_LIBC_NEXT(int, statx, (int, const char *, int, unsigned int, struct statx *));

/* The file system: libudev and others check that they read the kernel's sysfs. */

/* What the kernel reports for the nearest directory above that exists and is accessible. */
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

AV_LIBC_PATH(int, statfs, (const char *path, struct statfs *st), (path, st), AT_FDCWD,
	     AV_VLIBC_FOLLOW | AV_VLIBC_UNION, -1, statfs_node(node, st))

AV_LIBC(int, fstatfs, (int fd, struct statfs *st))
{
	struct av_vsysfs_node node;

	if (av_vlibc_fd_suspects() && av_vlibc_node_of_fd(fd, &node))
		return statfs_node(&node, st);
	return av_next_fstatfs()(fd, st);
}

AV_LIBC_ALIAS(statfs64, statfs);
AV_LIBC_ALIAS(fstatfs64, fstatfs);

/* Symbolic links and canonical paths. */

static ssize_t readlink_node(const struct av_vsysfs_node *node, const char *path, char *target,
			     size_t size)
{
	char bytes[AV_VSYSFS_CONTENT_BYTES];
	ssize_t len;

	if (node->kind != AV_VSYSFS_LINK || !size)
		return av_vlibc_fail(*path || !size ? EINVAL : ENOENT);
	len = av_vsysfs_read(node, bytes);
	if (len < 0)
		return av_vlibc_fail(ENOENT);
	if ((size_t)len > size)
		len = (ssize_t)size;
	memcpy(target, bytes, (size_t)len);
	return len;
}

AV_LIBC_PATH(ssize_t, readlink, (const char *path, char *target, size_t size), (path, target, size),
	     AT_FDCWD, 0, -1, readlink_node(node, path, target, size))

AV_LIBC_PATH(ssize_t, readlinkat, (int dirfd, const char *path, char *target, size_t size),
	     (dirfd, path, target, size), dirfd, AV_VLIBC_EMPTY, -1,
	     readlink_node(node, path, target, size))

/* For fortified programs: the C library ends them if the buffer is smaller than they claim. */

AV_LIBC(ssize_t, __readlink_chk, (const char *path, char *target, size_t size, size_t room))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)) && size <= room)
		return readlink_suspect(path, target, size);
	return av_next___readlink_chk()(path, target, size, room);
}

AV_LIBC(ssize_t, __readlinkat_chk,
	(int dirfd, const char *path, char *target, size_t size, size_t room))
{
	if (av_unlikely(av_vlibc_suspects(dirfd, path)) && size <= room)
		return readlinkat_suspect(dirfd, path, target, size);
	return av_next___readlinkat_chk()(dirfd, path, target, size, room);
}

/* The caller's buffer has PATH_MAX bytes. */
static char *realpath_node(const struct av_vsysfs_node *node, char *resolved)
{
	return resolved ? memcpy(resolved, node->path, strlen(node->path) + 1) : strdup(node->path);
}

AV_LIBC_PATH(char *, realpath, (const char *path, char *resolved), (path, resolved), AT_FDCWD,
	     AV_VLIBC_FOLLOW, NULL, realpath_node(node, resolved))

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

/* stat, access and extended attributes. */

#define FILE_BYTES 4096		       /* sysfs reports this size for every attribute */
#define TREE_DEV   makedev(0, 0xfa5e7) /* far above the kernel's numbers of mounts */

static bool count_dir(void *arg, const char *name, enum av_vsysfs_kind kind)
{
	nlink_t *links = arg;

	if (kind == AV_VSYSFS_DIR)
		(*links)++;
	return true;
}

/* Boot time of the host, as sysfs reports it. Constant within the process. */
static time_t read_boot_time(void)
{
	static _Atomic time_t boot_time;
	time_t seen = 0, boot = atomic_load_explicit(&boot_time, memory_order_relaxed);
	struct timespec now, up;

	if (boot || clock_gettime(CLOCK_REALTIME, &now) || clock_gettime(CLOCK_BOOTTIME, &up))
		return boot;
	boot = now.tv_sec - up.tv_sec;
	return atomic_compare_exchange_strong(&boot_time, &seen, boot) ? boot : seen;
}

/* Add our subdirectories to the link count: find(1) stops descending when the count is used up. */
static void count_links(const struct av_vsysfs_node *node, struct stat *st)
{
	nlink_t links = 0;

	av_vsysfs_list(node, count_dir, &links);
	st->st_nlink += links;
}

static void fill_ours(const struct av_vsysfs_node *node, struct stat *st)
{
	char target[AV_VSYSFS_CONTENT_BYTES];
	ssize_t len;

	memset(st, 0, sizeof(*st));
	st->st_dev = TREE_DEV;
	st->st_ino = av_vsysfs_ino(node->path);
	st->st_nlink = 1;
	st->st_blksize = FILE_BYTES;
	st->st_atime = st->st_mtime = st->st_ctime = read_boot_time();
	switch (node->kind) {
	case AV_VSYSFS_DIR:
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
		count_links(node, st);
		break;
	case AV_VSYSFS_FILE:
		st->st_mode = S_IFREG | 0444;
		st->st_size = FILE_BYTES;
		st->st_blocks = FILE_BYTES / 512; /* 0: cp and tar would call it sparse */
		break;
	case AV_VSYSFS_LINK:
		len = av_vsysfs_read(node, target);
		st->st_mode = S_IFLNK | 0777;
		st->st_size = len < 0 ? 0 : len;
		break;
	case AV_VSYSFS_CHAR:
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = node->dev ? av_vsysfs_rdev(node->dev) : AV_VSYSFS_CM_RDEV;
		break;
	}
}

static int stat_node(const struct av_vsysfs_node *node, struct stat *st)
{
	AV_ERRNO_KEPT;

	/* Of shared nodes only directories are answered here: the kernel's and our entries. */
	if (node->shared && !av_next_fstatat()(AT_FDCWD, node->path, st, AT_SYMLINK_NOFOLLOW))
		count_links(node, st);
	else
		fill_ours(node, st);
	return 0;
}

static int statx_node(const struct av_vsysfs_node *node, struct statx *stx)
{
	struct stat st;

	stat_node(node, &st);
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_blksize = (uint32_t)st.st_blksize;
	stx->stx_nlink = (uint32_t)st.st_nlink;
	stx->stx_mode = (uint16_t)st.st_mode;
	stx->stx_ino = st.st_ino;
	stx->stx_size = (uint64_t)st.st_size;
	stx->stx_blocks = (uint64_t)st.st_blocks;
	stx->stx_atime.tv_sec = st.st_atime;
	stx->stx_mtime.tv_sec = st.st_mtime;
	stx->stx_ctime.tv_sec = st.st_ctime;
	stx->stx_rdev_major = major(st.st_rdev);
	stx->stx_rdev_minor = minor(st.st_rdev);
	stx->stx_dev_major = major(st.st_dev);
	stx->stx_dev_minor = minor(st.st_dev);
	return 0;
}

static int how_of_flags(int flags)
{
	return (flags & AT_SYMLINK_NOFOLLOW ? 0 : AV_VLIBC_FOLLOW) |
	       (flags & AT_EMPTY_PATH ? AV_VLIBC_EMPTY : 0);
}

/* @ret: fstat()'s. If it has succeeded and the descriptor is ours, describe the node behind it. */
static int corrected(int ret, int fd, struct stat *st)
{
	struct av_vsysfs_node node;

	if (!ret && av_vlibc_fd_suspects() && av_vlibc_node_of(fd, st, &node))
		return stat_node(&node, st);
	return ret;
}

AV_LIBC_PATH(int, stat, (const char *path, struct stat *st), (path, st), AT_FDCWD,
	     AV_VLIBC_FOLLOW | AV_VLIBC_UNION, -1, stat_node(node, st))

AV_LIBC_PATH(int, lstat, (const char *path, struct stat *st), (path, st), AT_FDCWD, AV_VLIBC_UNION,
	     -1, stat_node(node, st))

AV_LIBC_PATH(int, fstatat, (int dirfd, const char *path, struct stat *st, int flags),
	     (dirfd, path, st, flags), dirfd, how_of_flags(flags) | AV_VLIBC_UNION, -1,
	     stat_node(node, st))

AV_LIBC(int, fstat, (int fd, struct stat *st))
{
	return corrected(av_next_fstat()(fd, st), fd, st);
}

/* Programs built against a C library before 2.33 call these. */

AV_LIBC_PATH(int, __xstat, (int ver, const char *path, struct stat *st), (ver, path, st), AT_FDCWD,
	     AV_VLIBC_FOLLOW | AV_VLIBC_UNION, -1, stat_node(node, st))

AV_LIBC_PATH(int, __lxstat, (int ver, const char *path, struct stat *st), (ver, path, st), AT_FDCWD,
	     AV_VLIBC_UNION, -1, stat_node(node, st))

AV_LIBC_PATH(int, __fxstatat, (int ver, int dirfd, const char *path, struct stat *st, int flags),
	     (ver, dirfd, path, st, flags), dirfd, how_of_flags(flags) | AV_VLIBC_UNION, -1,
	     stat_node(node, st))

AV_LIBC(int, __fxstat, (int ver, int fd, struct stat *st))
{
	return corrected(av_next___fxstat()(ver, fd, st), fd, st);
}

AV_LIBC_ALIAS(stat64, stat);
AV_LIBC_ALIAS(lstat64, lstat);
AV_LIBC_ALIAS(fstat64, fstat);
AV_LIBC_ALIAS(fstatat64, fstatat);
AV_LIBC_ALIAS(__xstat64, __xstat);
AV_LIBC_ALIAS(__lxstat64, __lxstat);
AV_LIBC_ALIAS(__fxstat64, __fxstat);
AV_LIBC_ALIAS(__fxstatat64, __fxstatat);

static int statx_suspect(int dirfd, const char *path, int flags, unsigned int mask,
			 struct statx *stx)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim(dirfd, &path, how_of_flags(flags) | AV_VLIBC_UNION, &claim))
		return av_next_statx()(dirfd, path, flags, mask, stx);
	return claim.error ? av_vlibc_fail(claim.error) : statx_node(&claim.walk.node, stx);
}

AV_LIBC(int, statx, (int dirfd, const char *path, int flags, unsigned int mask, struct statx *stx))
{
	/* A NULL path counts as empty, if the flags allow that. */
	const char *name = !path && (flags & AT_EMPTY_PATH) ? "" : path;

	if (av_unlikely(av_vlibc_suspects(dirfd, name)))
		return statx_suspect(dirfd, name, flags, mask, stx);
	return av_next_statx()(dirfd, path, flags, mask, stx);
}

/* Nothing here is writable, not even for root; only directories are searchable. */
static int check_access(const struct av_vsysfs_node *node, int mode)
{
	int permitted = R_OK;

	if (mode & ~(R_OK | W_OK | X_OK))
		return av_vlibc_fail(EINVAL);
	if (node->kind == AV_VSYSFS_DIR)
		permitted = R_OK | X_OK;
	else if (node->kind == AV_VSYSFS_CHAR)
		permitted = R_OK | W_OK;
	else if (node->kind == AV_VSYSFS_LINK) /* the link itself, not its target */
		permitted = R_OK | W_OK | X_OK;
	return mode & ~permitted ? av_vlibc_fail(EACCES) : 0;
}

AV_LIBC_PATH(int, access, (const char *path, int mode), (path, mode), AT_FDCWD, AV_VLIBC_FOLLOW, -1,
	     check_access(node, mode))

AV_LIBC_PATH(int, faccessat, (int dirfd, const char *path, int mode, int flags),
	     (dirfd, path, mode, flags), dirfd, how_of_flags(flags), -1, check_access(node, mode))

AV_LIBC_PATH(int, euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD, AV_VLIBC_FOLLOW,
	     -1, check_access(node, mode))

AV_LIBC_ALIAS(eaccess, euidaccess);

/* There are no extended attributes, but "ls -l" expects an answer that the file exists. */

AV_LIBC_PATH(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size),
	     (path, name, value, size), AT_FDCWD, AV_VLIBC_FOLLOW, -1, av_vlibc_fail(EOPNOTSUPP))

AV_LIBC_PATH(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size),
	     (path, name, value, size), AT_FDCWD, 0, -1, av_vlibc_fail(EOPNOTSUPP))

AV_LIBC_PATH(ssize_t, listxattr, (const char *path, char *list, size_t size), (path, list, size),
	     AT_FDCWD, AV_VLIBC_FOLLOW, -1, 0)

AV_LIBC_PATH(ssize_t, llistxattr, (const char *path, char *list, size_t size), (path, list, size),
	     AT_FDCWD, 0, -1, 0)
