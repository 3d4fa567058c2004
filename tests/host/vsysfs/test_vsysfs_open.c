/* SPDX-License-Identifier: MIT */
/* Files of the virtual sysfs as open(2) and its like, and stdio, give them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vsysfs_fixture.h"

TEST(every_kind_of_open_gives_the_content)
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

TEST(open_fails_as_the_kernels_would)
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
		{ANY0, O_RDONLY | O_NOFOLLOW, ELOOP},
		{ANY0, O_RDONLY | O_NOFOLLOW | O_DIRECTORY, ENOTDIR},
		{ANY0, O_RDONLY | O_CREAT | O_EXCL, EEXIST},
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

TEST(an_empty_path_creates_nothing)
{
	int dir = open_dir(ANY0);

	assert_int_equal(openat(dir, "", O_RDWR | O_CREAT, 0600), -1);
	assert_int_equal(errno, ENOENT);
	close(dir);
}

TEST(other_files_are_opened_as_ever)
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

TEST(close_on_exec_is_as_asked_for)
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

TEST(descriptor_survives_dup_and_fork_but_not_close)
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

TEST(what_cannot_be_read_fails_with_einval)
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

TEST(content_cannot_be_changed)
{
	int fd = open(ANY0 "/node_guid", O_RDONLY);

	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_reads(fd, GUID);
}

TEST(streams_of_stdio)
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

int main(void)
{
	if (!vsysfs_begin())
		return 77;
	return run_cases(NULL, NULL);
}
