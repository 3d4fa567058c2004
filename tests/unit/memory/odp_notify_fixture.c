/* SPDX-License-Identifier: MIT */
#include "odp_notify_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "copy/copy.h"

#define NOBODY 65534

struct fake_seg f;

bool can_watch(void)
{
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = 1 << 15 /* WP_ASYNC */};
	bool can = uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0;

	if (uffd >= 0)
		close(uffd);
	if (!can)
		fprintf(stderr, "no userfaultfd with asynchronous write protection here\n");
	return can;
}

static void become_nobody(void)
{
	CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0); /* as a program that nobody started would be */
}

bool access_at(uint8_t *p, uint64_t len, bool write)
{
	struct av_odp_access access;
	static uint8_t bytes[PAGES * PAGE];
	bool ok;

	av_odp_begin(&f.seg, (uintptr_t)p, len, write, NULL, &access);
	ok = (write ? av_copy(p, bytes, len) : av_copy(bytes, p, len)) == AV_COPY_OK;
	av_odp_end(&access, ok);
	return ok;
}

bool is_valid(const void *p)
{
	av_odp_settle(&f.seg);
	return fake_missing(&f.seg, (uintptr_t)p, 1, true) == 0;
}

void check_only_invalid(const uint8_t *p, int first, int last)
{
	for (int i = 0; i < PAGES; i++)
		if (is_valid(p + i * PAGE) != (i < first || i >= last)) {
			fprintf(stderr, "page %d of [%d, %d)\n", i, first, last);
			abort();
		}
}

/* Let the listener run once: sanitizers map memory of their own for a thread, which must not fall
 * into our holes. */
static void warm_up(void)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && access_at(p, PAGE, true));
	CHECK(munmap(p, PAGE) == 0 && !is_valid(p));
	memset(f.counters, 0, sizeof(*f.counters));
}

void in_child(void (*fn)(const void *), const void *arg, bool as_nobody)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(100);
		signal(SIGABRT, SIG_DFL);
		if (as_nobody)
			become_nobody();
		fake_open(&f, 1);
		av_odp_notify_begin(&f.seg);
		warm_up();
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

void as_both(void (*fn)(const void *), const void *arg)
{
	in_child(fn, arg, false);
	if (geteuid() == 0)
		in_child(fn, arg, true);
}

int wait_child(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

int entries_of(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int backing(enum kind kind)
{
	FILE *file;

	if (kind == PRIVATE || kind == SHARED)
		return -1;
	if (kind == MEMFD_SHARED || kind == MEMFD_PRIVATE)
		return memfd_create("memory", MFD_CLOEXEC);
	file = tmpfile();
	return file ? dup(fileno(file)) : -1;
}

uint8_t *map_kind(enum kind kind)
{
	int fd = backing(kind), flags = MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);
	uint8_t *room = mmap(NULL, (2 * PAGES + 2) * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	flags |= kind == PRIVATE || kind == MEMFD_PRIVATE || kind == FILE_PRIVATE ? MAP_PRIVATE
										  : MAP_SHARED;
	CHECK(room != MAP_FAILED && (fd < 0 || ftruncate(fd, PAGES * PAGE) == 0));
	CHECK(mmap(room + PAGE, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0) == room + PAGE);
	return room + PAGE;
}
