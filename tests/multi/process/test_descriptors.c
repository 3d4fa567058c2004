/* SPDX-License-Identifier: MIT */
/*
 * The program closes descriptors that are not its own, or puts its own files in their place. None
 * of its files is read, written, cut, grown, removed or closed, and nothing crashes. Connections go
 * on, since memory needs no descriptors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define BYTES 4096
#define FDS   4096
#define MINE  "this file is the program's\n"

static struct side a, b;
static bool before[FDS]; /* the program's descriptors, before it opens a device */

/* --- which descriptors ----------------------------------------------------------- */

static void each_descriptor(void (*visit)(int fd))
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	int fds[FDS];
	size_t n = 0;

	if (!dir)
		DIE("/proc/self/fd");
	while ((e = readdir(dir)) && n < FDS)
		if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(dir))
			fds[n++] = atoi(e->d_name);
	closedir(dir);
	for (size_t i = 0; i < n; i++)
		visit(fds[i]);
}

static void note(int fd)
{
	before[fd] = true;
}

/* Is this one of the library's, which the program has not been given? */
static bool is_foreign(int fd)
{
	return fd < FDS && !before[fd] && fd != a.node->ctx->async_fd && fd != a.node->channel->fd;
}

static unsigned int low; /* descriptors of the library below 512 */

static void count_low(int fd)
{
	char path[32], name[256];
	ssize_t n;

	if (!is_foreign(fd) || fd >= 512)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	name[n < 0 ? 0 : n] = '\0';
	printf("%d is %s\n", fd, name);
	low++;
}

/* --- the program's files ---------------------------------------------------------- */

static char folder[64], file[96];

static void make_mine(void)
{
	int fd;

	snprintf(folder, sizeof(folder), "%s/mine", getenv("ANYVERBS_DIR"));
	snprintf(file, sizeof(file), "%s/segment", folder); /* a name that the library knows */
	NEED(mkdir(folder, 0700) == 0);
	fd = open(file, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || write(fd, MINE, sizeof(MINE)) != sizeof(MINE))
		DIE("%s: errno %d", file, errno);
	close(fd);
}

static void expect_mine(void)
{
	char text[256] = "";
	struct stat st;
	int fd = open(file, O_RDONLY);

	EXPECT(fd >= 0, "the file is gone");
	EXPECT(fstat(fd, &st) == 0 && st.st_size == sizeof(MINE) && st.st_blocks <= 8,
	       "it has %ld bytes", (long)st.st_size);
	EXPECT(read(fd, text, sizeof(text)) == sizeof(MINE) && strcmp(text, MINE) == 0,
	       "it holds something else");
	close(fd);
}

static int in_place; /* the program's descriptor that takes the place of all others */

/* By number: ThreadSanitizer would report the library's threads that look at theirs. */
static void replace(int fd)
{
	if (is_foreign(fd))
		syscall(SYS_dup3, in_place, fd, 0);
}

static void close_foreign(int fd)
{
	if (is_foreign(fd))
		syscall(SYS_close, fd);
}

static void expect_open(int fd)
{
	struct stat st, want;

	if (is_foreign(fd) && fd != in_place)
		EXPECT(fstat(fd, &st) == 0 && fstat(in_place, &want) == 0 &&
			       st.st_ino == want.st_ino,
		       "descriptor %d is not the program's any more", fd);
}

/* --- what the program does afterwards ---------------------------------------------- */

/* Whatever works, or fails: nothing crashes. */
static void use_all(void)
{
	uint8_t *p =
		mmap(NULL, 64 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr[8];
	struct ibv_cq *cq = ibv_create_cq(a.node->ctx, 5000, NULL, NULL, 0);
	int status;
	pid_t pid;

	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, a.info.base[KEY_FULL], a.info.key[KEY_FULL],
		     BYTES, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, a.info.base[KEY_FULL], a.info.key[KEY_FULL],
		     BYTES, IBV_WC_SUCCESS);
	memset(p, 7, 64 * BYTES);
	for (int i = 0; i < 8; i++)
		mr[i] = ibv_reg_mr(a.node->pd, p + (size_t)i * 8 * BYTES, 8 * BYTES, PROBE_ALL);
	for (int i = 0; i < 8; i++)
		if (mr[i])
			EXPECT(ibv_dereg_mr(mr[i]) == 0, "ibv_dereg_mr: errno %d", errno);
	pid = fork();
	if (pid == 0)
		_exit(p[5 * BYTES] != 7);
	waitpid(pid, &status, 0);
	EXPECT(status == 0, "the child: %#x", status);
	for (size_t i = 0; i < 64 * BYTES; i++)
		if (p[i] != 7)
			DIE("memory has changed");
	if (cq)
		ibv_destroy_cq(cq);
	munmap(p, 64 * BYTES);
}

/* What processes without descriptors could not remove, with the rest. */
static void remove_all(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", getenv("ANYVERBS_DIR"));
	EXPECT(system(command) == 0, "%s", command);
}

/* For ThreadSanitizer: a thread that lost its descriptors ends before anybody joins it. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_thread_leaks=0";
}

struct test_row {
	const char *name;
	void (*spoil)(void);
};

/* In a process of its own, which ends by exit(). */
static void in_child(const struct test_row *r)
{
	int status;
	pid_t pid;

	row("%s", r->name);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		time_limit(60);
		memset(before, 0, sizeof(before));
		each_descriptor(note);
		side_start(&b);
		side_open(&a, NULL);
		before[b.sock] = true;
		probe_open(&b, &a, 0);
		r->spoil();
		exit(summary()); /* with the device open: the library's exit handlers run */
	}
	waitpid(pid, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program ended with %#x", status);
	expect_mine();
}

static void replaced_by_a_file(void)
{
	in_place = open(file, O_RDWR);
	before[in_place] = true;
	each_descriptor(replace);
	use_all();
	each_descriptor(expect_open);
	expect_mine();
	node_close(a.node);
	expect_mine();
}

static void replaced_by_a_folder(void)
{
	in_place = open(folder, O_RDONLY | O_DIRECTORY);
	before[in_place] = true;
	each_descriptor(replace);
	use_all();
	each_descriptor(expect_open);
	expect_mine();
	node_close(a.node);
	expect_mine();
}

/* The shared heap is discarded in a file, by number: but not in the program's. */
static void discarded(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[sizeof(MINE)] = "";
	struct ibv_mr *mr;
	off_t at;

	memset(p, 7, BYTES);
	mr = ibv_reg_mr(a.node->pd, p, BYTES, PROBE_ALL);
	at = (off_t)pages_offset(p);
	if (!mr || pages_private(p)) {
		printf("SKIPPED [%s]: nothing is shared\n", row_name());
		return;
	}
	in_place = memfd_create("mine", MFD_CLOEXEC);
	before[in_place] = true;
	EXPECT(pwrite(in_place, MINE, sizeof(MINE), at) == sizeof(MINE), "errno %d", errno);
	each_descriptor(replace);
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0, "errno %d", errno);
	EXPECT(p[0] == 0 && !memcmp(p, p + 1, BYTES - 1), "the memory is not discarded");
	EXPECT(pread(in_place, text, sizeof(text), at) == sizeof(text) && !strcmp(text, MINE),
	       "a hole in the program's file");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	munmap(p, BYTES);
}

static void closed(void)
{
	struct side sweeper = {0};

	each_descriptor(close_foreign);
	use_all(); /* the next change of the directory opens it again */
	side_start(&sweeper);
	side_stop(&sweeper);
	use_all();
}

/* Opens the shared files, and closes them again: a lock of the process would go. */
static void opened_and_closed(void)
{
	DIR *dir = opendir(getenv("ANYVERBS_DIR"));
	struct side sweeper = {0};
	const struct dirent *e;
	unsigned int found = 0;

	while (dir && (e = readdir(dir))) {
		char path[PATH_MAX];
		int fd;

		snprintf(path, sizeof(path), "%s/%s/directory", getenv("ANYVERBS_DIR"), e->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		found++;
		close(fd);
	}
	closedir(dir);
	EXPECT(found == 1, "%u directories", found);
	side_start(&sweeper); /* whoever joins sweeps the dead */
	side_stop(&sweeper);
	use_all();
}

static void high_numbers(void)
{
	each_descriptor(count_low);
	EXPECT(low == 0, "%u descriptors at low numbers", low);
}

static const struct test_row rows[] = {
	{"at high numbers", high_numbers},
	{"the program's file in their place", replaced_by_a_file},
	{"the program's folder in their place", replaced_by_a_folder},
	{"the shared heap is discarded", discarded},
	{"closed", closed},
	{"the directory opened and closed", opened_and_closed},
};

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 280);
	make_mine();
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		in_child(&rows[i]);
	remove_all();
	return summary();
}
