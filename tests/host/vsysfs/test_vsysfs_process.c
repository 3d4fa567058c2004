/* SPDX-License-Identifier: MIT */
/* What the virtual sysfs leaves alone in its process: signals, errno, threads, children. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "lib/sanitized.h"
#include "vsysfs_fixture.h"

static void assert_fails(int result, int error)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, error);
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

TEST(path_without_memory_is_an_error_not_a_signal)
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

TEST(file_size_limit_is_an_error_not_a_signal)
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

TEST(suspended_thread_sees_no_tree)
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

TEST(success_keeps_errno)
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

TEST(threads_do_not_disturb_each_other)
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

/* --- stacks ------------------------------------------------------------------------- */

#define STACK_BYTES (256u << 10) /* arm64 wants 128 KiB at least */
#define LITTLE	    2048u	 /* of a signal's stack of MINSIGSTKSZ bytes */

static void *no_call(void *arg)
{
	return arg;
}

static void *open_relative(void *arg)
{
	int fd = open("no such file", O_RDONLY);

	return fd < 0 ? arg : NULL;
}

/* How much of its stack does a thread use that does this? */
static size_t stack_used_by(void *(*what)(void *arg))
{
	static uint8_t stack[STACK_BYTES] __attribute__((aligned(4096)));
	pthread_attr_t attr;
	size_t unused = 0;
	pthread_t thread;
	void *ret;

	memset(stack, 0x5a, sizeof(stack));
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	assert_int_equal(pthread_create(&thread, &attr, what, stack), 0);
	pthread_join(thread, &ret);
	pthread_attr_destroy(&attr);
	assert_non_null(ret);
	while (unused < sizeof(stack) && stack[unused] == 0x5a)
		unused++;
	return sizeof(stack) - unused;
}

/* The first relative path asks where we are. Threads and handlers may have little stack for it. */
TEST(first_relative_path_takes_little_stack)
{
	size_t none, used;

	if (SANITIZED)
		skip(); /* sanitizers take stack of their own */
	assert_int_equal(chdir(ANY0), 0);
	assert_int_equal(chdir("/"), 0); /* so nobody knows any more */
	none = stack_used_by(no_call);
	used = stack_used_by(open_relative);
	assert_true(used < none + LITTLE);
}

/* A child of vfork() has descriptors of its own, but the memory of its parent. */
TEST(channel_survives_a_child_that_replaces_it)
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
	if (!vsysfs_begin())
		return 77;
	return run_cases(NULL, NULL);
}
