/* SPDX-License-Identifier: MIT */
/* Directories of the virtual sysfs: how they are read, and being in one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vsysfs_fixture.h"

TEST(directory_is_read_like_any_other)
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

/* The entry called so, as readdir() and lstat() agree on it. */
static unsigned char type_of(const char *path, const char *name)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned char type = 0;
	struct stat st;

	assert_non_null(dir);
	while ((entry = readdir(dir)) && strcmp(entry->d_name, name))
		;
	if (entry) {
		assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(entry->d_ino, st.st_ino);
		assert_int_equal(entry->d_type, st.st_mode >> 12);
		type = entry->d_type;
	}
	closedir(dir);
	return type;
}

TEST(entries_of_a_class_are_links)
{
	assert_int_equal(type_of("/sys/class/infiniband", "any0"), DT_LNK);
	assert_int_equal(type_of("/sys/class/infiniband_verbs", "uverbs0"), DT_LNK);
	assert_int_equal(type_of("/sys/class/infiniband_verbs", "abi_version"), DT_REG);
	assert_int_equal(type_of(ANY0, "ports"), DT_DIR);
	assert_int_equal(type_of(ANY0, "subsystem"), DT_LNK);
	assert_int_equal(type_of(ANY0, ".."), DT_DIR);
	assert_int_equal(type_of(ANY0 "/device", "infiniband"), DT_DIR);
	assert_int_equal(type_of(ANY0 "/device", ".."), DT_DIR);
	assert_int_equal(type_of(ANY0 "/..", "any0"), DT_DIR);
}

TEST(other_directories_are_read_as_ever)
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

TEST(what_is_no_directory_cannot_be_read_as_one)
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

TEST(fdopendir_owns_the_descriptor)
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

TEST(scandir_filters_and_sorts)
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

TEST(relative_paths_begin_at_a_virtual_directory)
{
	char real[PATH_MAX];
	struct stat st, same;
	DIR *dir;

	assert_non_null(getcwd(real, sizeof(real)));
	errno = EDOM;
	assert_int_equal(chdir(ANY0), 0);
	assert_int_equal(errno, EDOM);
	assert_is_in(ANY0_DEV); /* where the link leads */
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
	assert_is_in(ANY0_DEV "/ports/1");
	assert_int_equal(chdir("../../device"), 0);
	assert_is_in(BUS);
	assert_int_equal(chdir("../../../class"), 0);
	assert_is_in("/sys/class");
	assert_int_equal(stat("net", &st), 0);
	assert_int_equal(chdir(real), 0);
	assert_is_in(real);
	assert_int_equal(count_left(), 0);
}

TEST(virtual_directory_is_changed_as_any_other)
{
	char real[PATH_MAX], small[sizeof(ANY0_DEV)], *text;
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
	assert_is_in(ANY0_DEV "/ports");
	assert_int_equal(open("new", O_CREAT | O_WRONLY, 0600), -1);
	assert_int_equal(errno, EACCES);
	assert_int_equal(mkdir("new", 0700), -1);
	assert_int_equal(chdir(ANY0), 0);
	assert_null(getcwd(small, sizeof(small) - 1));
	assert_int_equal(errno, ERANGE);
	assert_ptr_equal(getcwd(small, sizeof(small)), small);
	assert_ptr_equal(__getcwd_chk(small, sizeof(small), sizeof(small)), small);
	assert_string_equal(small, ANY0_DEV);
	text = getcwd(NULL, 0);
	assert_string_equal(text, ANY0_DEV);
	free(text);
	assert_int_equal(fchdir(before), 0);
	close(before);
	assert_is_in(real);
	assert_int_equal(access("node_guid", F_OK), -1);
	assert_int_equal(count_left(), 0);
}

TEST(child_is_in_the_same_virtual_directory)
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

int main(void)
{
	if (!vsysfs_begin())
		return 77;
	return run_cases(NULL, NULL);
}
