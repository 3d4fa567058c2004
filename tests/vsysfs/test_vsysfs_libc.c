/* SPDX-License-Identifier: MIT */
/* The virtual sysfs through the C library's functions. What real programs make of it: preload.sh.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/real_files.h"
#include "lib/sanitized.h"
#include "preload/vsysfs.h"

#define ANY0 "/sys/class/infiniband/any0"
#define GUID "0200:c0ff:ee00:1234\n"

/* open(), of which the header has not promised that the path is not NULL. */
int open_anything(const char *path, int flags, ...) __asm__("open");
/* What a checked build calls. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *target, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *target, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);
char *__getcwd_chk(char *buffer, size_t size, size_t room);
/* What a program calls that was built with a C library before release 2.33. */
int __xstat(int ver, const char *path, struct stat *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags);

#ifdef __x86_64__
#define STAT_VER 1
#else
#define STAT_VER 0
#endif

/* Check what can be read from a descriptor, and close it. */
static void assert_reads(int fd, const char *expected)
{
	char bytes[256] = "";
	ssize_t len;

	assert_true(fd >= 0);
	len = read(fd, bytes, sizeof(bytes) - 1);
	assert_int_equal(len, (ssize_t)strlen(expected));
	assert_string_equal(bytes, expected);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), 0);
	close(fd);
}

static void assert_fails(int result, int error)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, error);
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void every_kind_of_open_gives_the_content(void **state)
{
	int dir = open_dir(ANY0);

	assert_reads(open(ANY0 "/node_guid", O_RDONLY), GUID);
	assert_reads(open64(ANY0 "/node_guid", O_RDONLY), GUID);
	assert_reads(openat(AT_FDCWD, ANY0 "/node_guid", O_RDONLY), GUID);
	assert_reads(openat(dir, "node_guid", O_RDONLY), GUID);
	assert_reads(openat64(dir, "ports/../node_guid", O_RDONLY), GUID);
	assert_reads(openat(dir, ANY0 "/node_guid", O_RDONLY), GUID);
	assert_reads(__open_2(ANY0 "/node_guid", O_RDONLY), GUID);
	assert_reads(__open64_2(ANY0 "/node_guid", O_RDONLY), GUID);
	assert_reads(__openat_2(dir, "node_guid", O_RDONLY), GUID);
	assert_reads(__openat64_2(dir, "node_guid", O_RDONLY), GUID);
	close(dir);
}

static void open_fails_as_the_kernels_would(void **state)
{
	static const struct {
		const char *path;
		int flags;
		int error;
	} rows[] = {
		{ANY0 "/nix", O_RDONLY, ENOENT},
		{ANY0 "/nix", O_RDWR | O_CREAT, EACCES},
		{ANY0 "/nix/x", O_RDWR | O_CREAT, ENOENT},
		{ANY0 "/node_guid/x", O_RDONLY, ENOTDIR},
		{ANY0 "/node_guid", O_RDONLY | O_DIRECTORY, ENOTDIR},
		{ANY0 "/node_guid", O_WRONLY, EACCES},
		{ANY0 "/node_guid", O_RDWR, EACCES},
		{ANY0 "/node_guid", O_RDONLY | O_TRUNC, EACCES},
		{ANY0 "/node_guid", O_RDWR | O_CREAT | O_EXCL, EEXIST},
		{ANY0 "/node_guid", O_RDONLY | O_CREAT | O_EXCL, EEXIST},
		{ANY0 "/node_guid", O_RDWR | O_TMPFILE, ENOTDIR},
		{ANY0, O_WRONLY, EISDIR},
		{ANY0, O_RDWR, EISDIR},
		{ANY0, O_RDONLY | O_CREAT, EISDIR},
		{ANY0, O_RDWR | O_TMPFILE, EOPNOTSUPP},
		{ANY0 "/device", O_RDONLY | O_NOFOLLOW, ELOOP},
		{ANY0 "/device", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, ENOTDIR},
		{ANY0 "/device", O_RDWR | O_CREAT | O_EXCL, EEXIST},
		{"/dev/infiniband/uverbs0", O_RDWR, ENXIO},
		{"/dev/infiniband/uverbs0", O_RDONLY | O_DIRECTORY, ENOTDIR},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		errno = 0;
		if (open(rows[i].path, rows[i].flags, 0600) != -1 || errno != rows[i].error)
			fail_msg("%s, 0%o: %s", rows[i].path, rows[i].flags, strerror(errno));
	}
}

static void other_files_are_opened_as_ever(void **state)
{
	char path[] = "/tmp/vsysfs.XXXXXX";
	int fd = mkstemp(path), dir = open_dir("/tmp"), virtual_dir = open_dir(ANY0);
	struct stat st;

	assert_true(fd >= 0);
	close(fd);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0640);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	assert_reads(openat(dir, strrchr(path, '/') + 1, O_RDONLY), "text");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 4);
	unlink(path);
	/* A new file gets the mode it was opened with. */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0640, 0640);
	assert_int_equal(st.st_mode & 07137, 0);
	close(fd);
	unlink(path);
	assert_int_equal(open_anything(NULL, O_RDONLY), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(openat(-1, "x", O_RDONLY), -1);
	assert_int_equal(errno, EBADF);
	close(dir);
	close(virtual_dir);
}

/* All functions that hand their path to the kernel. (opendir() and realpath() of the C library look
 * at it themselves.) */
static void assert_no_path(const char *path, int error)
{
	struct statx stx;
	struct stat st;
	char bytes[8];

	assert_fails(open_anything(path, O_RDONLY), error);
	assert_fails(open_anything(path, O_RDWR | O_CREAT, 0600), error);
	assert_fails(openat(AT_FDCWD, path, O_RDONLY), error);
	assert_fails(__open_2(path, O_RDONLY), error);
	assert_fails(__openat_2(AT_FDCWD, path, O_RDONLY), error);
	assert_fails(fopen(path, "r") ? 0 : -1, error);
	assert_fails(stat(path, &st), error);
	assert_fails(lstat(path, &st), error);
	assert_fails(fstatat(AT_FDCWD, path, &st, 0), error);
	assert_fails(__xstat(STAT_VER, path, &st), error);
	assert_fails(__lxstat(STAT_VER, path, &st), error);
	assert_fails(__fxstatat(STAT_VER, AT_FDCWD, path, &st, 0), error);
	assert_fails(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &stx), error);
	assert_fails(access(path, R_OK), error);
	assert_fails(faccessat(AT_FDCWD, path, R_OK, 0), error);
	assert_fails(euidaccess(path, R_OK), error);
	assert_fails((int)getxattr(path, "user.x", bytes, sizeof(bytes)), error);
	assert_fails((int)lgetxattr(path, "user.x", bytes, sizeof(bytes)), error);
	assert_fails((int)listxattr(path, bytes, sizeof(bytes)), error);
	assert_fails((int)llistxattr(path, bytes, sizeof(bytes)), error);
	assert_fails((int)readlink(path, bytes, sizeof(bytes)), error);
	assert_fails((int)readlinkat(AT_FDCWD, path, bytes, sizeof(bytes)), error);
}

/* @text right before memory that is not there, with its NUL or without. */
static const char *at_the_end(char *page, size_t bytes, const char *text, bool nul)
{
	size_t len = strlen(text) + nul;

	return memcpy(page + bytes - len, text, len);
}

static void path_without_memory_is_an_error_not_a_signal(void **state)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *page =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int dir;

	if (SANITIZED)
		skip(); /* sanitizers look at paths before the kernel does */
	dir = open_dir(ANY0);
	assert_true(page != MAP_FAILED);
	assert_int_equal(mprotect(page + bytes, bytes, PROT_NONE), 0);
	assert_no_path((const char *)-1, EFAULT);
	assert_no_path((const char *)8, EFAULT);
	assert_no_path(page + bytes, EFAULT);
	assert_no_path(at_the_end(page, bytes, "/", false), EFAULT);
	assert_no_path(at_the_end(page, bytes, "/s", false), EFAULT);
	assert_no_path(at_the_end(page, bytes, "/sys/cl", false), EFAULT);
	assert_no_path(at_the_end(page, bytes, ANY0, false), EFAULT);
	assert_no_path(at_the_end(page, bytes, ANY0 "/node_guid/x", true), ENOTDIR);
	assert_reads(open(at_the_end(page, bytes, ANY0 "/node_guid", true), O_RDONLY), GUID);
	assert_fails(openat(dir, page + bytes, O_RDONLY), EFAULT);
	assert_fails(openat(dir, at_the_end(page, bytes, "node", false), O_RDONLY), EFAULT);
	assert_reads(openat(dir, at_the_end(page, bytes, "node_guid", true), O_RDONLY), GUID);
	close(dir);
	munmap(page, 2 * bytes);
}

static void close_on_exec_is_as_asked_for(void **state)
{
	int fd = open(ANY0 "/node_guid", O_RDONLY), dir = open(ANY0, O_RDONLY);
	FILE *file = fopen(ANY0 "/node_guid", "re"), *inherited = fopen(ANY0 "/node_guid", "r");
	DIR *stream = opendir(ANY0);

	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_int_equal(fcntl(dir, F_GETFD), 0);
	assert_int_equal(fcntl(fileno(file), F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fileno(inherited), F_GETFD), 0);
	assert_int_equal(fcntl(dirfd(stream), F_GETFD), FD_CLOEXEC);
	close(fd);
	fclose(file);
	fclose(inherited);
	closedir(stream);
	stream = fdopendir(dir);
	assert_int_equal(fcntl(dir, F_GETFD), FD_CLOEXEC);
	closedir(stream);
}

static void descriptor_survives_dup_and_fork_but_not_close(void **state)
{
	int dir = open_dir(ANY0), copy = dup(dir), reused;
	int status;

	assert_true(copy >= 0);
	close(dir);
	assert_reads(openat(copy, "node_guid", O_RDONLY), GUID);
	if (!fork())
		_exit(openat(copy, "node_guid", O_RDONLY) >= 0 ? 0 : 1);
	wait(&status);
	assert_int_equal(status, 0);
	reused = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(reused, dir);
	assert_int_equal(openat(reused, "node_guid", O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	close(reused);
	close(copy);
}

static void what_cannot_be_read_fails_with_einval(void **state)
{
	static const char *const paths[] = {ANY0, ANY0 "/ports/1/gid_attrs/types/63"};
	char byte;

	for (size_t i = 0; i < AV_ARRAY_SIZE(paths); i++) {
		int fd = open(paths[i], O_RDONLY);

		assert_true(fd >= 0);
		assert_int_equal(read(fd, &byte, 1), -1);
		assert_int_equal(errno, EINVAL);
		close(fd);
	}
}

static void content_cannot_be_changed(void **state)
{
	int fd = open(ANY0 "/node_guid", O_RDONLY);

	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_reads(fd, GUID);
}

static void file_size_limit_is_an_error_not_a_signal(void **state)
{
	const struct rlimit none = {0, 0};
	int status;

	if (!fork()) {
		setrlimit(RLIMIT_FSIZE, &none);
		_exit(open(ANY0 "/node_guid", O_RDONLY) < 0 && errno == EFBIG ? 0 : 1);
	}
	wait(&status);
	assert_int_equal(status, 0);
}

static void streams_of_stdio(void **state)
{
	static const struct {
		const char *path;
		const char *mode;
		int error;
	} rows[] = {
		{ANY0 "/node_guid", "w", EACCES},
		{ANY0 "/node_guid", "a", EACCES},
		{ANY0 "/node_guid", "r+", EACCES},
		{ANY0 "/node_guid", "q", EINVAL},
		{ANY0 "/nix", "r", ENOENT},
		{ANY0 "/nix", "w", EACCES},
		{"/dev/infiniband/uverbs0", "r", ENXIO},
	};
	char line[64];
	FILE *file;

	file = fopen(ANY0 "/node_guid", "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, GUID);
	assert_null(fgets(line, sizeof(line), file));
	rewind(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	file = fopen64(ANY0 "/node_guid", "rbe");
	assert_non_null(file);
	fclose(file);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		assert_null(fopen(rows[i].path, rows[i].mode));
		assert_int_equal(errno, rows[i].error);
	}
}

static void assert_same_stat(const struct stat *a, const struct stat *b)
{
	assert_int_equal(a->st_dev, b->st_dev);
	assert_int_equal(a->st_ino, b->st_ino);
	assert_int_equal(a->st_mode, b->st_mode);
	assert_int_equal(a->st_nlink, b->st_nlink);
	assert_int_equal(a->st_size, b->st_size);
	assert_int_equal(a->st_mtime, b->st_mtime);
}

static void every_kind_of_stat_says_the_same(void **state)
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

static void links_and_devices_have_their_stat(void **state)
{
	struct stat st, target;

	assert_int_equal(lstat(ANY0 "/device", &st), 0);
	assert_int_equal(st.st_mode, S_IFLNK | 0777);
	assert_int_equal(st.st_size, strlen("../../../devices/virtual/anyverbs/anyverbs.0"));
	assert_int_equal(stat(ANY0 "/device", &st), 0);
	assert_int_equal(stat("/sys/devices/virtual/anyverbs/anyverbs.0", &target), 0);
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

static void statx_says_the_same_as_stat(void **state)
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

static void access_is_read_only_even_for_root(void **state)
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

static void extended_attributes_there_are_none(void **state)
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

static void links_are_read_and_resolved(void **state)
{
	static const char target[] = "../../../devices/virtual/anyverbs/anyverbs.0";
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
	assert_string_equal(bytes, "/sys/devices/virtual/anyverbs/anyverbs.0/vendor");
	assert_ptr_equal(__realpath_chk(ANY0 "/../any0", bytes, sizeof(bytes)), bytes);
	assert_string_equal(bytes, ANY0);
	resolved = canonicalize_file_name(ANY0 "/device");
	assert_string_equal(resolved, "/sys/devices/virtual/anyverbs/anyverbs.0");
	free(resolved);
	assert_null(realpath(ANY0 "/nix", NULL));
	assert_int_equal(errno, ENOENT);
	resolved = realpath("/sys/class/infiniband/..", NULL);
	assert_string_equal(resolved, "/sys/class");
	free(resolved);
}

static void directory_is_read_like_any_other(void **state)
{
	DIR *dir = opendir(ANY0 "/ports/1/gids");
	struct dirent *entry, copy, *result;
	unsigned int count = 0;
	char name[NAME_MAX + 1];
	struct stat st;
	long place;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		assert_int_equal(entry->d_type, entry->d_name[0] == '.' ? DT_DIR : DT_REG);
		assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
		if (strcmp(entry->d_name, ".."))
			assert_int_equal(entry->d_ino, st.st_ino);
		count++;
	}
	assert_int_equal(count, 64 + 2);
	rewinddir(dir);
	readdir(dir);
	place = telldir(dir);
	entry = readdir(dir);
	assert_non_null(entry);
	strcpy(name, entry->d_name);
	readdir64(dir);
	seekdir(dir, place);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	assert_int_equal(readdir_r(dir, &copy, &result), 0);
#pragma GCC diagnostic pop
	assert_ptr_equal(result, &copy);
	assert_string_equal(copy.d_name, name);
	assert_int_equal(closedir(dir), 0);
}

static void other_directories_are_read_as_ever(void **state)
{
	char path[] = "/tmp/vsysfs.XXXXXX";
	struct dirent **entries;
	unsigned int count = 0;
	long place;
	DIR *dir;

	assert_non_null(mkdtemp(path));
	dir = opendir(path);
	assert_non_null(dir);
	place = telldir(dir);
	while (readdir(dir))
		count++;
	assert_int_equal(count, 2);
	rewinddir(dir);
	assert_non_null(readdir(dir));
	seekdir(dir, place);
	assert_true(dirfd(dir) >= 0);
	assert_int_equal(closedir(dir), 0);
	dir = fdopendir(open_dir(path));
	assert_non_null(dir);
	closedir(dir);
	assert_int_equal(scandir(path, &entries, NULL, alphasort), 2);
	free(entries[0]);
	free(entries[1]);
	free(entries);
	rmdir(path);
	assert_null(opendir(path));
	assert_int_equal(errno, ENOENT);
}

static void what_is_no_directory_cannot_be_read_as_one(void **state)
{
	int fd = open(ANY0 "/node_guid", O_RDONLY | O_CLOEXEC);
	struct dirent **entries;

	assert_null(opendir(ANY0 "/node_guid"));
	assert_int_equal(errno, ENOTDIR);
	assert_null(opendir(ANY0 "/nix"));
	assert_int_equal(errno, ENOENT);
	assert_null(fdopendir(fd));
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(scandir(ANY0 "/node_guid", &entries, NULL, NULL), -1);
	assert_int_equal(errno, ENOTDIR);
	close(fd);
}

static void fdopendir_owns_the_descriptor(void **state)
{
	int fd = open_dir(ANY0);
	DIR *dir = fdopendir(fd);

	assert_non_null(dir);
	assert_int_equal(dirfd(dir), fd);
	assert_non_null(readdir(dir));
	assert_int_equal(closedir(dir), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static int only_guids(const struct dirent *entry)
{
	return strstr(entry->d_name, "guid") != NULL;
}

static void scandir_filters_and_sorts(void **state)
{
	int parent = open_dir("/sys/class/infiniband");
	struct dirent **entries;

	assert_int_equal(scandir(ANY0, &entries, only_guids, alphasort), 2);
	assert_string_equal(entries[0]->d_name, "node_guid");
	assert_string_equal(entries[1]->d_name, "sys_image_guid");
	free(entries[0]);
	free(entries[1]);
	free(entries);
	assert_int_equal(scandirat(parent, "any0", &entries, only_guids, NULL), 2);
	free(entries[0]);
	free(entries[1]);
	free(entries);
	close(parent);
}

static void suspended_thread_sees_no_tree(void **state)
{
	struct stat st;

	av_real_files_begin();
	av_real_files_begin();
	av_real_files_end();
	assert_int_equal(stat(ANY0, &st), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(open(ANY0 "/node_guid", O_RDONLY), -1);
	assert_null(opendir(ANY0));
	av_real_files_end();
	assert_int_equal(stat(ANY0, &st), 0);
}

static void assert_is_in(const char *path)
{
	char bytes[PATH_MAX], *text;

	assert_ptr_equal(getcwd(bytes, sizeof(bytes)), bytes);
	assert_string_equal(bytes, path);
	text = get_current_dir_name();
	assert_string_equal(text, path);
	free(text);
}

/* Names of ours in the folders that a directory is made in. */
static unsigned int count_left(void)
{
	static const char *const bases[] = {"/dev/shm", "/tmp"};
	unsigned int left = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(bases); i++) {
		DIR *dir = opendir(bases[i]);
		struct dirent *e;
		char mark[64];

		snprintf(mark, sizeof(mark), "anyverbs-cwd-%d-", getpid());
		while (dir && (e = readdir(dir)))
			left += strncmp(e->d_name, mark, strlen(mark)) == 0;
		if (dir)
			closedir(dir);
	}
	return left;
}

static void relative_paths_begin_at_a_virtual_directory(void **state)
{
	char real[PATH_MAX];
	struct stat st, same;
	DIR *dir;

	assert_non_null(getcwd(real, sizeof(real)));
	errno = EDOM;
	assert_int_equal(chdir(ANY0), 0);
	assert_int_equal(errno, EDOM);
	assert_is_in(ANY0);
	assert_int_equal(errno, EDOM);
	assert_reads(open("node_guid", O_RDONLY), GUID);
	assert_int_equal(stat(".", &st), 0);
	assert_int_equal(stat(ANY0, &same), 0);
	assert_memory_equal(&st, &same, sizeof(st));
	assert_int_equal(access("ports/1/state", R_OK), 0);
	dir = opendir("ports");
	assert_non_null(dir);
	closedir(dir);
	assert_int_equal(chdir("ports/1"), 0);
	assert_is_in(ANY0 "/ports/1");
	assert_int_equal(chdir("../../device"), 0);
	assert_is_in("/sys/devices/virtual/anyverbs/anyverbs.0");
	assert_int_equal(chdir("../../../../class"), 0);
	assert_is_in("/sys/class");
	assert_int_equal(stat("net", &st), 0);
	assert_int_equal(chdir(real), 0);
	assert_is_in(real);
	assert_int_equal(count_left(), 0);
}

static void virtual_directory_is_changed_as_any_other(void **state)
{
	char real[PATH_MAX], small[sizeof(ANY0)], *text;
	int before = open(".", O_RDONLY | O_DIRECTORY), ports;

	assert_non_null(getcwd(real, sizeof(real)));
	assert_int_equal(chdir(ANY0 "/fw_ver"), -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(chdir(ANY0 "/nix"), -1);
	assert_int_equal(errno, ENOENT);
	assert_is_in(real);
	ports = open_dir(ANY0 "/ports");
	assert_int_equal(fchdir(ports), 0);
	close(ports);
	assert_is_in(ANY0 "/ports");
	assert_int_equal(open("new", O_CREAT | O_WRONLY, 0600), -1);
	assert_int_equal(errno, EACCES);
	assert_int_equal(mkdir("new", 0700), -1);
	assert_int_equal(chdir(ANY0), 0);
	assert_null(getcwd(small, sizeof(small) - 1));
	assert_int_equal(errno, ERANGE);
	assert_ptr_equal(getcwd(small, sizeof(small)), small);
	assert_ptr_equal(__getcwd_chk(small, sizeof(small), sizeof(small)), small);
	assert_string_equal(small, ANY0);
	text = getcwd(NULL, 0);
	assert_string_equal(text, ANY0);
	free(text);
	assert_int_equal(fchdir(before), 0);
	close(before);
	assert_is_in(real);
	assert_int_equal(access("node_guid", F_OK), -1);
	assert_int_equal(count_left(), 0);
}

static void child_is_in_the_same_virtual_directory(void **state)
{
	char real[PATH_MAX];
	int status;
	pid_t pid;

	assert_non_null(getcwd(real, sizeof(real)));
	assert_int_equal(chdir(ANY0), 0);
	pid = fork();
	if (!pid)
		_exit(access("node_guid", R_OK) || chdir("/tmp") || !access("node_guid", R_OK));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_reads(open("node_guid", O_RDONLY), GUID);
	assert_int_equal(chdir(real), 0);
}

static void success_keeps_errno(void **state)
{
	struct stat st;
	int fd;

	errno = EDOM;
	fd = open(ANY0 "/ports/1/gids/0", O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(stat("/sys/class/infiniband", &st), 0);
	assert_int_equal(access(ANY0, R_OK), 0);
	assert_int_equal(errno, EDOM);
	close(fd);
}

static void *use_everything(void *arg)
{
	char line[64];
	bool *failed = arg;

	for (int i = 0; i < 200 && !*failed; i++) {
		DIR *dir = opendir(ANY0);
		FILE *file = fopen(ANY0 "/node_guid", "r");
		int fd = dir ? openat(dirfd(dir), "ports/1/state", O_RDONLY) : -1;

		*failed = !dir || !readdir(dir) || !file || !fgets(line, sizeof(line), file) ||
			  strcmp(line, GUID) || fd < 0;
		if (dir)
			closedir(dir);
		if (file)
			fclose(file);
		close(fd);
	}
	return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t threads[4];
	bool failed[4] = {false};

	for (size_t i = 0; i < AV_ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_everything, &failed[i]), 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(threads); i++) {
		pthread_join(threads[i], NULL);
		assert_false(failed[i]);
	}
}

/* A child of vfork() has descriptors of its own, but the memory of its parent. */
static void channel_survives_a_child_that_replaces_it(void **state)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC), status;
	pid_t child;

	if (fd < 0 && errno == ENOPROTOOPT) { /* an emulator without SO_MAX_PACING_RATE */
		close(null);
		skip();
	}
	assert_true(null >= 0 && fd >= 0);
	child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): it is the subject */
	if (!child)
		_exit(dup2(null, fd) != fd || write(fd, "x", 1) != 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	errno = 0;
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EINVAL); /* a command is longer; the socket would take it */
	assert_int_equal(dup2(null, fd), fd);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	close(null);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_open_gives_the_content),
		cmocka_unit_test(open_fails_as_the_kernels_would),
		cmocka_unit_test(other_files_are_opened_as_ever),
		cmocka_unit_test(path_without_memory_is_an_error_not_a_signal),
		cmocka_unit_test(close_on_exec_is_as_asked_for),
		cmocka_unit_test(descriptor_survives_dup_and_fork_but_not_close),
		cmocka_unit_test(what_cannot_be_read_fails_with_einval),
		cmocka_unit_test(content_cannot_be_changed),
		cmocka_unit_test(file_size_limit_is_an_error_not_a_signal),
		cmocka_unit_test(streams_of_stdio),
		cmocka_unit_test(every_kind_of_stat_says_the_same),
		cmocka_unit_test(links_and_devices_have_their_stat),
		cmocka_unit_test(statx_says_the_same_as_stat),
		cmocka_unit_test(access_is_read_only_even_for_root),
		cmocka_unit_test(extended_attributes_there_are_none),
		cmocka_unit_test(links_are_read_and_resolved),
		cmocka_unit_test(directory_is_read_like_any_other),
		cmocka_unit_test(other_directories_are_read_as_ever),
		cmocka_unit_test(what_is_no_directory_cannot_be_read_as_one),
		cmocka_unit_test(fdopendir_owns_the_descriptor),
		cmocka_unit_test(scandir_filters_and_sorts),
		cmocka_unit_test(relative_paths_begin_at_a_virtual_directory),
		cmocka_unit_test(virtual_directory_is_changed_as_any_other),
		cmocka_unit_test(child_is_in_the_same_virtual_directory),
		cmocka_unit_test(suspended_thread_sees_no_tree),
		cmocka_unit_test(success_keeps_errno),
		cmocka_unit_test(threads_do_not_disturb_each_other),
		cmocka_unit_test(channel_survives_a_child_that_replaces_it),
	};

	av_real_files_begin();
	if (!access("/dev/infiniband/uverbs0", F_OK))
		return 77; /* a device of the kernel's is in the place of ours */
	av_real_files_end();
	setenv("ANYVERBS_DEVICES", "any0:gids=64:guid=0200c0ffee001234", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
