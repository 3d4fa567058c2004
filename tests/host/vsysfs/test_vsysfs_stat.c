/* SPDX-License-Identifier: MIT */
/* What stat(2), access(2), readlink(2) and their like say of the virtual sysfs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "vsysfs_fixture.h"

static void assert_same_stat(const struct stat *a, const struct stat *b)
{
	assert_int_equal(a->st_dev, b->st_dev);
	assert_int_equal(a->st_ino, b->st_ino);
	assert_int_equal(a->st_mode, b->st_mode);
	assert_int_equal(a->st_nlink, b->st_nlink);
	assert_int_equal(a->st_size, b->st_size);
	assert_int_equal(a->st_mtime, b->st_mtime);
}

TEST(every_kind_of_stat_says_the_same)
{
	int dir = open_dir(ANY0), fd = openat(dir, "node_guid", O_RDONLY);
	struct stat st, other;
	struct stat64 other64;

	assert_int_equal(stat(ANY0 "/node_guid", &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0444);
	assert_int_equal(st.st_size, 4096);
#define SAME(call)                           \
	memset(&other, 0xff, sizeof(other)); \
	assert_int_equal(call, 0);           \
	assert_same_stat(&st, &other)
	SAME(lstat(ANY0 "/node_guid", &other));
	SAME(fstat(fd, &other));
	SAME(fstatat(dir, "node_guid", &other, 0));
	SAME(fstatat(fd, "", &other, AT_EMPTY_PATH));
	SAME(__xstat(STAT_VER, ANY0 "/node_guid", &other));
	SAME(__lxstat(STAT_VER, ANY0 "/node_guid", &other));
	SAME(__fxstat(STAT_VER, fd, &other));
	SAME(__fxstatat(STAT_VER, dir, "node_guid", &other, 0));
	assert_int_equal(stat(ANY0, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(st.st_nlink, 3);
	SAME(fstat(dir, &other));
	SAME(fstatat(dir, ".", &other, 0));
	assert_int_equal(stat64(ANY0, &other64), 0);
	assert_int_equal(other64.st_ino, st.st_ino);
	assert_int_equal(fstat64(dir, &other64), 0);
	assert_int_equal(other64.st_ino, st.st_ino);
	assert_int_equal(fstatat(dir, "", &other, 0), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(fstatat(fd, "x", &other, 0), -1);
	assert_int_equal(errno, ENOTDIR);
	close(fd);
	close(dir);
}

TEST(links_and_devices_have_their_stat)
{
	struct stat st, target;

	assert_int_equal(lstat(ANY0 "/device", &st), 0);
	assert_int_equal(st.st_mode, S_IFLNK | 0777);
	assert_int_equal(st.st_size, strlen("../../../anyverbs.0"));
	assert_int_equal(stat(ANY0 "/device", &st), 0);
	assert_int_equal(stat(BUS, &target), 0);
	assert_same_stat(&st, &target);
	assert_int_equal(stat("/dev/infiniband/uverbs0", &st), 0);
	assert_int_equal(st.st_mode, S_IFCHR | 0666);
	assert_int_equal(st.st_rdev, makedev(231, 192));
	/* A descriptor for the link itself */
	int fd = open(ANY0 "/device", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char text[64];

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFLNK | 0777);
	assert_int_equal(readlinkat(fd, "", text, sizeof(text)), st.st_size);
	close(fd);
}

TEST(statx_says_the_same_as_stat)
{
	int dir = open_dir(ANY0);
	struct statx stx;
	struct stat st;

	assert_int_equal(stat("/dev/infiniband/uverbs0", &st), 0);
	assert_int_equal(statx(AT_FDCWD, "/dev/infiniband/uverbs0", 0, STATX_BASIC_STATS, &stx), 0);
	assert_int_equal(stx.stx_mask & STATX_BASIC_STATS, STATX_BASIC_STATS);
	assert_int_equal(stx.stx_mode, st.st_mode);
	assert_int_equal(stx.stx_ino, st.st_ino);
	assert_int_equal(makedev(stx.stx_rdev_major, stx.stx_rdev_minor), st.st_rdev);
	assert_int_equal(makedev(stx.stx_dev_major, stx.stx_dev_minor), st.st_dev);
	assert_int_equal(stx.stx_mtime.tv_sec, st.st_mtime);
	assert_int_equal(statx(dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx), 0);
	assert_int_equal(stx.stx_mode, S_IFDIR | 0755);
	assert_int_equal(statx(dir, "node_guid", 0, STATX_BASIC_STATS, &stx), 0);
	assert_int_equal(stx.stx_size, 4096);
	assert_int_equal(statx(dir, "nix", 0, STATX_BASIC_STATS, &stx), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &stx), 0);
	close(dir);
}

TEST(access_is_read_only_even_for_root)
{
	static const struct {
		const char *path;
		int mode;
		int error;
	} rows[] = {
		{ANY0, F_OK, 0},
		{ANY0, R_OK | X_OK, 0},
		{ANY0, W_OK, EACCES},
		{ANY0 "/node_guid", F_OK, 0},
		{ANY0 "/node_guid", R_OK, 0},
		{ANY0 "/node_guid", W_OK, EACCES},
		{ANY0 "/node_guid", X_OK, EACCES},
		{ANY0 "/nix", F_OK, ENOENT},
		{ANY0 "/node_guid/x", F_OK, ENOTDIR},
		{ANY0, 0x100, EINVAL},
		{"/dev/infiniband/uverbs0", R_OK | W_OK, 0},
		{"/dev/infiniband/uverbs0", X_OK, EACCES},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		int ret = rows[i].error ? -1 : 0;

		assert_int_equal(access(rows[i].path, rows[i].mode), ret);
		assert_true(!ret || errno == rows[i].error);
		assert_int_equal(faccessat(AT_FDCWD, rows[i].path, rows[i].mode, 0), ret);
		assert_int_equal(eaccess(rows[i].path, rows[i].mode), ret);
		assert_int_equal(euidaccess(rows[i].path, rows[i].mode), ret);
	}
	assert_int_equal(access("/", R_OK), 0);
	assert_int_equal(eaccess("/", R_OK), 0);
}

TEST(extended_attributes_there_are_none)
{
	char value[16];

	assert_int_equal(getxattr(ANY0, "system.posix_acl_access", value, sizeof(value)), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(lgetxattr(ANY0 "/device", "user.x", value, sizeof(value)), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(listxattr(ANY0, value, sizeof(value)), 0);
	assert_int_equal(llistxattr(ANY0 "/device", value, sizeof(value)), 0);
	assert_int_equal(listxattr(ANY0 "/nix", value, sizeof(value)), -1);
	assert_int_equal(errno, ENOENT);
}

TEST(links_are_read_and_resolved)
{
	static const char target[] = "../../../anyverbs.0";
	char bytes[PATH_MAX], *resolved;
	int dir = open_dir(ANY0);

	assert_int_equal(readlink(ANY0 "/device", bytes, sizeof(bytes)), sizeof(target) - 1);
	assert_memory_equal(bytes, target, sizeof(target) - 1);
	assert_int_equal(readlink(ANY0 "/device", bytes, 5), 5);
	assert_int_equal(readlinkat(dir, "device", bytes, sizeof(bytes)), sizeof(target) - 1);
	assert_int_equal(__readlink_chk(ANY0 "/device", bytes, 5, 5), 5);
	assert_int_equal(__readlinkat_chk(dir, "device", bytes, 5, 5), 5);
	assert_int_equal(readlink(ANY0 "/node_guid", bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EINVAL);
	close(dir);

	assert_ptr_equal(realpath(ANY0 "/device/vendor", bytes), bytes);
	assert_string_equal(bytes, BUS "/vendor");
	assert_ptr_equal(__realpath_chk(ANY0 "/../any0", bytes, sizeof(bytes)), bytes);
	assert_string_equal(bytes, ANY0_DEV);
	resolved = canonicalize_file_name(ANY0 "/device");
	assert_string_equal(resolved, BUS);
	free(resolved);
	assert_null(realpath(ANY0 "/nix", NULL));
	assert_int_equal(errno, ENOENT);
	resolved = realpath("/sys/class/infiniband/..", NULL);
	assert_string_equal(resolved, "/sys/class");
	free(resolved);
}

/* Documentation/filesystems/sysfs.rst: a class has links to its devices, which link back. */
TEST(classes_have_links)
{
	static const struct {
		const char *class, *name;
	} rows[] = {{"/sys/class/infiniband", "any0"}, {"/sys/class/infiniband_verbs", "uverbs0"}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		char link[64], below[PATH_MAX], target[64], *real, *found;
		struct stat st, other;
		ssize_t len;

		snprintf(link, sizeof(link), "%s/%s", rows[i].class, rows[i].name);
		assert_int_equal(lstat(link, &st), 0);
		assert_int_equal(st.st_mode, S_IFLNK | 0777);
		len = readlink(link, target, sizeof(target));
		assert_int_equal(len, st.st_size);
		snprintf(below, sizeof(below), "%s/%.*s", rows[i].class, (int)len, target);
		real = realpath(link, NULL);
		found = realpath(below, NULL);
		assert_string_equal(real, found);
		assert_memory_equal(real, "/sys/devices/", 13);
		assert_int_equal(stat(link, &st), 0);
		assert_int_equal(lstat(real, &other), 0);
		assert_same_stat(&st, &other);
		free(found);
		snprintf(below, sizeof(below), "%s/subsystem", link);
		found = realpath(below, NULL);
		assert_string_equal(found, rows[i].class);
		free(found);
		snprintf(below, sizeof(below), "%s/device", link);
		found = realpath(below, NULL);
		*strrchr(real, '/') = '\0';
		*strrchr(real, '/') = '\0';
		assert_string_equal(found, real);
		free(found);
		free(real);
	}
}

/* Programs walk from the root, one descriptor after the other. */
TEST(paths_may_begin_at_a_directory_above)
{
	int root = open_dir("/"), class = open_dir("/sys/class"), ib, null;
	char target[64], real[PATH_MAX];
	struct stat st, same;

	assert_non_null(getcwd(real, sizeof(real)));
	assert_int_equal(stat(ANY0, &st), 0);
	assert_int_equal(fstatat(root, "sys/class/infiniband/any0", &same, 0), 0);
	assert_same_stat(&st, &same);
	assert_int_equal(faccessat(class, "infiniband/any0/node_guid", R_OK, 0), 0);
	assert_reads(openat(class, "infiniband/any0/node_guid", O_RDONLY), GUID);
	assert_true(readlinkat(class, "infiniband/any0", target, sizeof(target)) > 0);
	ib = openat(class, "infiniband", O_PATH | O_NOFOLLOW);
	assert_reads(openat(ib, "any0/node_guid", O_RDONLY), GUID);
	assert_int_equal(fstatat(ib, "..", &st, 0), 0);
	assert_int_equal(fstat(class, &same), 0);
	assert_same_stat(&st, &same);
	close(ib);
	assert_int_equal(openat(class, "infiniband/nix", O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(chdir("/sys/class"), 0);
	assert_reads(open("infiniband/any0/node_guid", O_RDONLY), GUID);
	assert_int_equal(chdir(real), 0);
	/* Other directories have none of this. */
	assert_int_equal(openat(class, "sys/class/infiniband", O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	null = openat(root, "dev/null", O_RDONLY);
	assert_true(null >= 0);
	assert_int_equal(openat(null, "infiniband", O_RDONLY), -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(openat(-1, "infiniband", O_RDONLY), -1);
	assert_int_equal(errno, EBADF);
	close(null);
	close(class);
	close(root);
}

/* @covered has the name of a directory above, but is not what is there by now. */
static int look_below(int covered)
{
	int cover;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/sys/class", "tmpfs", 0, NULL))
		return 77;
	cover = open_dir("/sys/class");
	return openat(covered, "infiniband/any0", O_RDONLY) >= 0 || errno != ENOENT ||
	       openat(cover, "infiniband/any0", O_RDONLY) < 0;
}

TEST(a_directory_of_that_name_elsewhere_is_none_above)
{
	int class = open_dir("/sys/class"), status;
	pid_t pid = fork();

	if (!pid)
		_exit(look_below(class));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(class);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

TEST(the_file_system_is_the_one_above)
{
	static const char *const paths[][2] = {
		{ANY0, "/sys"}, {ANY0 "/node_guid", "/sys"}, {"/dev/infiniband/uverbs0", "/dev"}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(paths); i++) {
		int fd = open(paths[i][0], O_PATH | O_CLOEXEC);
		struct statfs want, st;

		assert_int_equal(statfs(paths[i][1], &want), 0);
		errno = EDOM;
		assert_int_equal(statfs(paths[i][0], &st), 0);
		assert_int_equal(errno, EDOM);
		assert_int_equal(st.f_type, want.f_type);
		assert_int_equal(fstatfs(fd, &st), 0);
		assert_int_equal(st.f_type, want.f_type);
		close(fd);
	}
	assert_int_equal(statfs(ANY0 "/nix", &(struct statfs){0}), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(fstatfs(-1, &(struct statfs){0}), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	if (!vsysfs_begin())
		return 77;
	return run_cases(NULL, NULL);
}
