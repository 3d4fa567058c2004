/* SPDX-License-Identifier: MIT */
/*
 * Invalidations: each thing a program can do to its memory, what of it the device hears, and that nobody
 * hangs.
 *
 * Every case runs in a forked child of its own, as the user who runs the test and (if that is root) as
 * nobody, with an alarm: a program stuck in munmap() is what must not happen.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/copy.h"
#include "fake_seg.h"
#include "memory/odp_access.h"
#include "memory/odp_notify.h"
#include "memory/odp_table.h"
#include "memory/vma.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define NOBODY 65534
#define PAGES  16
#define PAGE   4096u

static struct fake_seg f;

/* --- children ------------------------------------------------------------------------------------------- */

static void become_nobody(void)
{
	CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0); /* as a program that nobody started would be */
}

static void warm_up(void);

static void in_child(void (*fn)(const void *), const void *arg, bool as_nobody)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		signal(SIGABRT, SIG_DFL);
		if (as_nobody)
			become_nobody();
		fake_open(&f, 1);
		av_odp_watch(&f.seg);
		warm_up();
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void as_both(void (*fn)(const void *), const void *arg)
{
	in_child(fn, arg, false);
	if (geteuid() == 0)
		in_child(fn, arg, true);
}

/* --- what the device does ------------------------------------------------------------------------------- */

static bool access_at(uint8_t *p, uint64_t len, bool write)
{
	struct av_odp_access access;
	static uint8_t bytes[PAGES * PAGE];
	bool ok;

	av_odp_begin(&f.seg, (uintptr_t)p, len, write, &access);
	ok = (write ? av_copy(p, bytes, len) : av_copy(bytes, p, len)) == AV_COPY_OK;
	av_odp_end(&access, ok);
	return ok;
}

static bool is_valid(const void *p)
{
	av_odp_settle(&f.seg);
	return av_odp_missing(&f.seg, (uintptr_t)p, 1, true) == 0;
}

/* Exactly the pages [first, last) of @p are not valid. */
static void check_only_invalid(const uint8_t *p, int first, int last)
{
	for (int i = 0; i < PAGES; i++)
		if (is_valid(p + i * PAGE) != (i < first || i >= last)) {
			fprintf(stderr, "page %d of [%d, %d)\n", i, first, last);
			abort();
		}
}

/* Let the listener run once: sanitizers map memory of their own for a thread, which must not fall into our
 * holes. */
static void warm_up(void)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && access_at(p, PAGE, true));
	CHECK(munmap(p, PAGE) == 0 && !is_valid(p));
	memset(f.counters, 0, sizeof(*f.counters));
}

/* --- each event ----------------------------------------------------------------------------------------- */

enum kind { PRIVATE, SHARED, MEMFD_SHARED, MEMFD_PRIVATE, FILE_SHARED, FILE_PRIVATE, KINDS };
#define ANY	  ((1u << KINDS) - 1)
#define IN_MEMORY (1u << SHARED | 1u << MEMFD_SHARED)

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

/* PAGES pages between two that belong to nobody, so that mappings do not merge. */
static uint8_t *map_kind(enum kind kind)
{
	int fd = backing(kind), flags = MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);
	uint8_t *room = mmap(NULL, (2 * PAGES + 2) * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	flags |= kind == PRIVATE || kind == MEMFD_PRIVATE || kind == FILE_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	CHECK(room != MAP_FAILED && (fd < 0 || ftruncate(fd, PAGES * PAGE) == 0));
	CHECK(mmap(room + PAGE, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0) == room + PAGE);
	return room + PAGE;
}

static void do_munmap(uint8_t *p)
{
	CHECK(munmap(p, PAGES * PAGE) == 0);
}

static void do_munmap_part(uint8_t *p)
{
	CHECK(munmap(p + 3 * PAGE, 5 * PAGE) == 0);
}

static void do_munmap_over_a_hole(uint8_t *p)
{
	CHECK(munmap(p + 3 * PAGE, 2 * PAGE) == 0);
	CHECK(munmap(p + PAGE, 9 * PAGE) == 0);
}

static void do_map_over(uint8_t *p)
{
	CHECK(mmap(p + 2 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == p + 2 * PAGE);
}

static void do_move(uint8_t *p)
{
	uint8_t *to = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(mremap(p, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void do_move_part(uint8_t *p)
{
	uint8_t *to = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(mremap(p + 4 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void do_shrink(uint8_t *p)
{
	CHECK(mremap(p, PAGES * PAGE, 10 * PAGE, 0) == p);
}

static void do_grow_in_place(uint8_t *p)
{
	CHECK(munmap(p + PAGES * PAGE, PAGES * PAGE) == 0);
	CHECK(mremap(p, PAGES * PAGE, (PAGES + 4) * PAGE, 0) == p);
}

static void do_grow_and_move(uint8_t *p)
{
	CHECK(mremap(p, PAGES * PAGE, (PAGES + 4) * PAGE, MREMAP_MAYMOVE) != p);
}

static void do_move_and_leave(uint8_t *p)
{
	CHECK(mremap(p, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, NULL) !=
	      MAP_FAILED);
}

static void do_dontneed(uint8_t *p)
{
	CHECK(madvise(p + 5 * PAGE, 6 * PAGE, MADV_DONTNEED) == 0);
}

static void do_free(uint8_t *p)
{
	CHECK(madvise(p + 5 * PAGE, 6 * PAGE, MADV_FREE) == 0);
}

static void do_remove(uint8_t *p)
{
	CHECK(madvise(p + 5 * PAGE, 6 * PAGE, MADV_REMOVE) == 0);
}

/* Not invalidations, or none that the kernel tells of. */
static void do_nothing(uint8_t *p)
{
	CHECK(mprotect(p, PAGES * PAGE, PROT_NONE) == 0);
	CHECK(mprotect(p, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
	CHECK(madvise(p, PAGES * PAGE, MADV_WILLNEED) == 0);
	CHECK(munmap(p + PAGES * PAGE, PAGE) == 0);
}

struct row {
	const char *name;
	void (*act)(uint8_t *p);
	unsigned int kinds;
	int first, last; /* pages that are not valid afterwards */
	uint64_t events;
};

static const struct row rows[] = {
	{"munmap", do_munmap, ANY, 0, PAGES, 1},
	{"munmap_part", do_munmap_part, ANY, 3, 8, 1},
	{"munmap_over_a_hole", do_munmap_over_a_hole, ANY, 1, 10, 2},
	{"map_over", do_map_over, ANY, 2, 6, 1},
	{"mremap_move", do_move, ANY, 0, PAGES, 1},
	{"mremap_move_part", do_move_part, ANY, 4, 8, 1},
	{"mremap_shrink", do_shrink, ANY, 10, PAGES, 1},
	{"mremap_grow_in_place", do_grow_in_place, ANY, 0, 0, 0},
	{"mremap_grow_and_move", do_grow_and_move, ANY, 0, PAGES, 1},
	{"mremap_dontunmap", do_move_and_leave, 1u << PRIVATE, 0, PAGES, 1},
	{"madv_dontneed", do_dontneed, ANY, 5, 11, 1},
	{"madv_free", do_free, 1u << PRIVATE, 5, 11, 1},
	{"madv_remove", do_remove, IN_MEMORY, 5, 11, 1},
	{"no_invalidation", do_nothing, ANY, 0, 0, 0},
};

static void event_child(const void *arg)
{
	const struct row *row = arg;

	for (enum kind kind = 0; kind < KINDS; kind++) {
		uint64_t events = counted(&f, AV_ODP_COUNT_INVALIDATIONS);
		uint64_t pages = counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES);
		uint8_t *p;

		if (!(row->kinds & 1u << kind))
			continue;
		p = map_kind(kind);
		CHECK(access_at(p, PAGES * PAGE, true));
		CHECK(is_valid(p));
		row->act(p);
		check_only_invalid(p, row->first, row->last);
		CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), events + row->events);
		CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES),
			    pages + (uint64_t)(row->last - row->first));
	}
}

static void clears_exactly(void **state)
{
	as_both(event_child, *state);
}

static void brk_child(const void *arg)
{
	uint8_t *p;

	CHECK(((uintptr_t)sbrk(0) & (PAGE - 1)) == 0 ||
	      sbrk((intptr_t)(PAGE - ((uintptr_t)sbrk(0) & (PAGE - 1)))));
	p = sbrk(PAGES * PAGE);
	CHECK(p != (void *)-1 && access_at(p, PAGES * PAGE, true));
	CHECK(sbrk(-(intptr_t)(6 * PAGE)) != (void *)-1);
	check_only_invalid(p, PAGES - 6, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 1);
}

static void shrinking_the_heap(void **state)
{
	as_both(brk_child, NULL);
}

/* What moved is still watched where it is now. */
static void moved_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE), *q;

	CHECK(access_at(p, PAGES * PAGE, true));
	q = mremap(p, PAGES * PAGE, (PAGES + 4) * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && access_at(q, PAGES * PAGE, true));
	CHECK(munmap(q, PAGES * PAGE) == 0);
	check_only_invalid(q, 0, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 2);
}

static void what_moved_is_still_watched(void **state)
{
	as_both(moved_child, NULL);
}

/* --- counting accesses ---------------------------------------------------------------------------------- */

static void faults_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);

	CHECK(access_at(p + PAGE - 1, 2, false)); /* two pages, one event */
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 1);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), 2);
	CHECK(access_at(p, 2 * PAGE, false));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 1);
	CHECK(access_at(p, PAGE, true)); /* valid for reading only */
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 2);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), 3);
	CHECK(access_at(p, 3 * PAGE, false)); /* one of three */
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 3);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), 4);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 0);
}

static void faults_are_counted(void **state)
{
	as_both(faults_child, NULL);
}

static void failures_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);

	CHECK(!access_at(p - PAGE, 1, false)); /* PROT_NONE */
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 1);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), 0);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 1);
	CHECK(access_at(p, PAGES * PAGE, true));
	CHECK(mprotect(p, PAGES * PAGE, PROT_READ) == 0);
	CHECK(is_valid(p)); /* nobody said otherwise */
	CHECK(!access_at(p, PAGE, true));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 3);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 2);
	check_only_invalid(p, 0, 1);
	CHECK(access_at(p, PAGE, false));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 4);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), PAGES + 1);
}

static void what_cannot_be_resolved_is_counted(void **state)
{
	as_both(failures_child, NULL);
}

static void contention_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	struct av_odp_access access;

	av_odp_begin(&f.seg, (uintptr_t)p, PAGE, true, &access);
	*p = 1;
	CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0);
	av_odp_settle(&f.seg);
	av_odp_end(&access, true);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_CONTENTIONS), 1);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 1);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), 0);
	CHECK(!is_valid(p));
	CHECK(access_at(p, PAGE, true));
	CHECK(is_valid(p));
}

static void an_invalidation_during_a_fault_is_a_contention(void **state)
{
	as_both(contention_child, NULL);
}

/* After munmap() has returned, the very next access knows: not once in a thousand is it too early. */
static void *burn(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		av_pause();
	return NULL;
}

static void exact_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	atomic_bool stop = false;
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&t[i], NULL, burn, &stop) == 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		CHECK(access_at(p, 2 * PAGE, true));
		CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), i);
		CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULT_PAGES), 2 * i);
		if (i % 2)
			CHECK(madvise(p, 2 * PAGE, MADV_DONTNEED) == 0);
		else
			CHECK(mmap(p, PAGES * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	av_odp_settle(&f.seg);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 1000);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES), 2000);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_CONTENTIONS), 0);
}

static void an_access_after_an_unmap_is_never_too_early(void **state)
{
	as_both(exact_child, NULL);
}

/* --- nobody hangs --------------------------------------------------------------------------------------- */

static uint8_t *ground;
static atomic_bool stop_all;

static void *unmapper(void *arg)
{
	while (!atomic_load(&stop_all)) {
		if (SANITIZED) /* whose other threads would map something into the hole */
			mmap(ground, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		else
			munmap(ground, PAGES * PAGE);
		mmap(ground, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
	}
	return NULL;
}

/* The heap's lock is held while its memory is unmapped, and its memory is watched. */
static void *heap_user(void *arg)
{
	while (!atomic_load(&stop_all)) {
		uint8_t *p = malloc(1 << 20), *q = malloc(3000);

		if (p && q)
			CHECK(access_at(p, PAGE, true) && access_at(q, 3000, true));
		free(p);
		free(q);
	}
	return NULL;
}

static void hang_child(const void *arg)
{
	pthread_t t[3];
	uint64_t until = av_now_ns() + 1000000000u;

	ground = map_kind(PRIVATE);
	CHECK(pthread_create(&t[0], NULL, unmapper, NULL) == 0);
	CHECK(pthread_create(&t[1], NULL, heap_user, NULL) == 0);
	CHECK(pthread_create(&t[2], NULL, heap_user, NULL) == 0);
	while (av_now_ns() < until) {
		(void)access_at(ground, PAGES * PAGE, true);
		(void)access_at(ground + 5 * PAGE, 1, false);
	}
	atomic_store(&stop_all, true);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK(munmap(ground, PAGES * PAGE) == 0);
	check_only_invalid(ground, 0, PAGES);
	CHECK(counted(&f, AV_ODP_COUNT_INVALIDATIONS) > 0);
}

static void threads_that_unmap_do_not_hang(void **state)
{
	as_both(hang_child, NULL);
}

/* --- lives ---------------------------------------------------------------------------------------------- */

static int entries_of(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void close_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE), *q = map_kind(SHARED);
	struct fake_seg g;
	int fds, threads;

	CHECK(av_odp_uffd() >= 0);
	av_odp_unwatch(&f.seg);
	fds = entries_of("/proc/self/fd");
	threads = entries_of("/proc/self/task");
	for (int i = 0; i < 20; i++) {
		fake_open(&g, 2);
		av_odp_watch(&f.seg);
		av_odp_watch(&f.seg);
		av_odp_watch(&g.seg);
		CHECK(access_at(p, PAGES * PAGE, true) && access_at(q, PAGES * PAGE, true));
		CHECK(madvise(q, PAGES * PAGE, MADV_DONTNEED) == 0 && !is_valid(q)); /* watched anew */
		av_odp_unwatch(&f.seg);
		CHECK(av_odp_uffd() >= 0);
		CHECK(madvise(p, PAGES * PAGE, MADV_DONTNEED) == 0);
		CHECK(is_valid(p)); /* nobody is watching for this context */
		av_odp_unwatch(&g.seg);
		av_odp_unwatch(&g.seg);
		fake_close(&g);
		CHECK(av_odp_uffd() == -1);
		CHECK(munmap(q, PAGE) == 0 &&
		      mmap(q, PAGE, 3, MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS, -1, 0) == q);
		CHECK(madvise(q, PAGES * PAGE, MADV_DONTNEED) == 0); /* does not wait for anybody */
	}
	CHECK_EQUAL(entries_of("/proc/self/fd"), fds);
	CHECK_EQUAL(entries_of("/proc/self/task"), threads);
}

static void the_last_context_leaves_nothing_behind(void **state)
{
	as_both(close_child, NULL);
}

static void two_contexts_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	struct av_odp_access access;
	struct fake_seg g;

	fake_open(&g, 2);
	av_odp_watch(&g.seg);
	CHECK(access_at(p, PAGES * PAGE, true));
	av_odp_begin(&g.seg, (uintptr_t)p, 2 * PAGE, true, &access);
	CHECK_EQUAL(access.missing, 2);
	av_odp_end(&access, true);
	CHECK(munmap(p, PAGES * PAGE) == 0);
	check_only_invalid(p, 0, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES), PAGES);
	CHECK_EQUAL(counted(&g, AV_ODP_COUNT_INVALIDATION_PAGES), 2);
}

static void every_context_hears_of_it(void **state)
{
	as_both(two_contexts_child, NULL);
}

static int wait_child(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static void fork_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	pid_t pid;

	CHECK(access_at(p, PAGES * PAGE, true));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct fake_seg g;

		alarm(20);
		CHECK(av_odp_uffd() == -1);
		CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0);
		CHECK(munmap(p + PAGE, PAGE) == 0);
		av_odp_unwatch(&f.seg);
		if (UNDER_TSAN)
			_exit(0);
		fake_open(&g, 3); /* the child's own */
		av_odp_watch(&g.seg);
		f = g;
		CHECK(access_at(p, PAGE, true) && is_valid(p));
		CHECK(munmap(p, PAGE) == 0);
		CHECK(!is_valid(p));
		_exit(0);
	}
	CHECK(wait_child(pid) == 0);
	check_only_invalid(p, 0, 0); /* the child's doing is not ours */
	CHECK(munmap(p, PAGES * PAGE) == 0);
	check_only_invalid(p, 0, PAGES);
}

static void a_forked_child_is_somebody_else(void **state)
{
	as_both(fork_child, NULL);
}

/* A program that closes all descriptors, and opens its own: nothing of its is read, and it does not hang. */
static void closed_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	int uffd = av_odp_uffd(), ends[2];
	char bytes[64] = {0};

	CHECK(access_at(p, PAGES * PAGE, true));
	CHECK(pipe(ends) == 0 && dup2(ends[0], uffd) == uffd && close(ends[0]) == 0);
	CHECK(write(ends[1], bytes, sizeof(bytes)) == sizeof(bytes));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	for (int i = 0; av_odp_uffd() >= 0 && i < 1000; i++)
		usleep(1000);
	CHECK(av_odp_uffd() == -1);
	CHECK(read(uffd, bytes, sizeof(bytes)) == sizeof(bytes));
	p = map_kind(PRIVATE);
	CHECK(access_at(p, PAGES * PAGE, true));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	av_odp_unwatch(&f.seg);
	CHECK(fcntl(uffd, F_GETFD) >= 0);
}

static void a_program_may_close_our_descriptor(void **state)
{
	as_both(closed_child, NULL);
}

/* A range that the program watches itself is left alone, and everything works but the count of invalidations.
 */
static void busy_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range = {(uintptr_t)p, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_WP};

	CHECK(uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0 && ioctl(uffd, UFFDIO_REGISTER, &reg) == 0);
	CHECK(access_at(p, PAGES * PAGE, true) && is_valid(p));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 0);
	CHECK(!access_at(p, PAGE, true)); /* a hit that failed */
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 1);
	CHECK(!is_valid(p));
}

static void the_program_may_watch_its_memory_itself(void **state)
{
	as_both(busy_child, NULL);
}

/* System V memory, whose detaching nobody reports: found out by the access. */
static void shm_child(const void *arg)
{
	int id = shmget(IPC_PRIVATE, PAGES * PAGE, IPC_CREAT | 0600);
	uint8_t *p;

	CHECK(id >= 0);
	p = shmat(id, NULL, 0);
	CHECK(shmctl(id, IPC_RMID, NULL) == 0 && p != (void *)-1);
	CHECK(access_at(p, PAGES * PAGE, true));
	CHECK(madvise(p, 2 * PAGE, MADV_DONTNEED) == 0);
	check_only_invalid(p, 0, 2);
	CHECK(shmdt(p) == 0);
	CHECK(!access_at(p + 2 * PAGE, PAGE, true));
	check_only_invalid(p, 0, 3);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 1);
}

static void detached_memory_is_found_out(void **state)
{
	as_both(shm_child, NULL);
}

/* --- peers ---------------------------------------------------------------------------------------------- */

/* The first fault is resolved by another process, before the owner has ever touched the page. */
static void as_peer(uint8_t *p, pid_t owner, struct av_odp_access *access)
{
	char x = 'x';
	struct iovec local = {.iov_base = &x, .iov_len = 1}, remote = {.iov_base = p, .iov_len = 1};

	f.seg.own = false;
	atomic_store(&f.seg.alive_ns, av_now_coarse_ns()); /* there is no directory to ask */
	av_odp_begin(&f.seg, (uintptr_t)p, 1, true, access);
	av_odp_end(access, process_vm_writev(owner, &local, 1, &remote, 1, 0) == 1);
}

static void peer_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	pid_t owner = getpid(), pid;

	CHECK(prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) == 0 ||
	      errno == EINVAL); /* where Yama would object */
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct av_odp_access access;
		int fds;

		alarm(20);
		as_peer(p, owner, &access);
		CHECK_EQUAL(access.missing, 1);
		fds = entries_of("/proc/self/fd");
		as_peer(p + PAGE, owner, &access);
		CHECK_EQUAL(access.missing, 1);
		CHECK_EQUAL(entries_of("/proc/self/fd"), fds);
		as_peer(p, owner, &access);
		CHECK_EQUAL(access.missing, 0);
		_exit(0);
	}
	CHECK(wait_child(pid) == 0);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 2);
	CHECK(*p == 'x' && is_valid(p) && is_valid(p + PAGE) && !is_valid(p + 2 * PAGE));
	CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0);
	CHECK(!is_valid(p) && is_valid(p + PAGE));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	check_only_invalid(p, 0, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 2);
}

static void what_a_peer_resolves_is_watched_too(void **state)
{
	as_both(peer_child, NULL);
}

/* Where nothing can be watched, pages become valid all the same and accesses are counted. */
static void unwatched_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);

	av_odp_unwatch(&f.seg);
	fake_close(&f);
	fake_open(&f, 2);
	CHECK(access_at(p, PAGES * PAGE, true) && access_at(p, PAGES * PAGE, true));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 1);
	CHECK(munmap(p, PAGES * PAGE) == 0);
	CHECK(is_valid(p) && !access_at(p, PAGE, false) && !is_valid(p));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 1);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 0);
}

static void nothing_watched_nothing_lost(void **state)
{
	as_both(unwatched_child, NULL);
}

/* An owner that was stopped in the middle of handling events delays its peers' accesses a little, no more. */
static void stopped_child(const void *arg)
{
	uint64_t start = av_now_ns();

	f.seg.own = false;
	atomic_store(&f.seg.head->odp_seq, 1);
	av_odp_settle(&f.seg);
	CHECK(av_now_ns() - start < 1000000000u);
}

static void a_stopped_owner_stops_nobody(void **state)
{
	in_child(stopped_child, NULL, false);
}

/* --- mappings ------------------------------------------------------------------------------------------- */

static void mappings_one_by_one(void **state)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint64_t addr = 0;
	struct av_vma vma, text;
	int n = 0;

	assert_true(maps >= 0);
	while (av_vma_next(maps, addr, &vma)) {
		assert_true(vma.end > addr && vma.end > vma.begin);
		assert_true(av_vma_next_text(maps, addr, &text));
		assert_int_equal(vma.begin, text.begin);
		assert_int_equal(vma.end, text.end);
		assert_int_equal(vma.anonymous, text.anonymous);
		assert_true(av_vma_next_text(maps, vma.end - 1, &text));
		assert_int_equal(vma.begin, text.begin);
		addr = vma.end;
		n++;
	}
	assert_true(n > 5);
	assert_false(av_vma_next_text(maps, UINT64_MAX - 4096, &text));
	close(maps);
	assert_false(av_vma_next(maps, 0, &vma));
}

int main(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(rows) + 17];
	const struct CMUnitTest others[] = {
		cmocka_unit_test(shrinking_the_heap),
		cmocka_unit_test(what_moved_is_still_watched),
		cmocka_unit_test(faults_are_counted),
		cmocka_unit_test(what_cannot_be_resolved_is_counted),
		cmocka_unit_test(an_invalidation_during_a_fault_is_a_contention),
		cmocka_unit_test(an_access_after_an_unmap_is_never_too_early),
		cmocka_unit_test(threads_that_unmap_do_not_hang),
		cmocka_unit_test(the_last_context_leaves_nothing_behind),
		cmocka_unit_test(every_context_hears_of_it),
		cmocka_unit_test(a_forked_child_is_somebody_else),
		cmocka_unit_test(a_program_may_close_our_descriptor),
		cmocka_unit_test(the_program_may_watch_its_memory_itself),
		cmocka_unit_test(detached_memory_is_found_out),
		cmocka_unit_test(what_a_peer_resolves_is_watched_too),
		cmocka_unit_test(nothing_watched_nothing_lost),
		cmocka_unit_test(a_stopped_owner_stops_nobody),
		cmocka_unit_test(mappings_one_by_one),
	};
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = 1 << 15 /* WP_ASYNC */};

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) {
		fprintf(stderr, "no userfaultfd with asynchronous write protection here\n");
		return 77;
	}
	close(uffd);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		tests[i] = (struct CMUnitTest){rows[i].name, clears_exactly, NULL, NULL,
					       (void *)(uintptr_t)&rows[i]};
	memcpy(tests + AV_ARRAY_SIZE(rows), others, sizeof(others));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
