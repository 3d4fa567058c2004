/* SPDX-License-Identifier: MIT */
/* Advice: which pages become valid, which are brought in, what is refused, and what is counted. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "device/device.h"
#include "device/switches.h"
#include "fake_seg.h"
#include "lib/apart.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/odp.h"
#include "memory/region.h"

#define RUNS	 512u /* of present pages: in more than are asked for at a time */
#define PAGE	 4096u
#define PAGES	 16
#define ROUNDS	 20000 /* of prefetches that are looked at as they are counted */
#define READ	 IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE	 IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

static struct fake_seg f;
static uint8_t *room; /* PAGES pages between two that are not mapped */

/* Sanitizers would map something of their own into a hole. */
static int make_hole(uint8_t *p)
{
	return SANITIZED ? mprotect(p, PAGE, PROT_NONE) : munmap(p, PAGE);
}

static int setup(void **state)
{
	fake_open(&f, 1);
	av_odp_notify_begin(&f.seg);
	/* Apart: else the thread that follows advice later has its stack where nothing is mapped.
	 */
	room = mmap((void *)APART_AT, (PAGES + 2) * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (room == MAP_FAILED || madvise(room, (PAGES + 2) * PAGE, MADV_NOHUGEPAGE))
		return -1;
	room += PAGE;
	return make_hole(room - PAGE) || make_hole(room + PAGES * PAGE) ? -1 : 0;
}

static int teardown(void **state)
{
	av_odp_quiesce(&f.seg);
	munmap(room, PAGES * PAGE);
	if (SANITIZED) { /* else somebody may have mapped something there */
		munmap(room - PAGE, PAGE);
		munmap(room + PAGES * PAGE, PAGE);
	}
	av_odp_notify_end(&f.seg);
	fake_close(&f);
	return 0;
}

static int advise(const uint8_t *p, uint64_t len, enum ib_uverbs_advise_mr_advice advice,
		  bool flush)
{
	struct av_odp_range range = {(uintptr_t)p, len};

	return av_odp_advise(&f.seg, &range, 1, advice, flush);
}

static uint64_t missing(const uint8_t *p, uint64_t len, bool write)
{
	return fake_missing(&f.seg, (uintptr_t)p, len, write);
}

static bool present(const uint8_t *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	assert_true(fd >= 0 && pread(fd, &entry, 8, (off_t)((uintptr_t)p / PAGE * 8)) == 8);
	close(fd);
	return entry >> 63;
}

static void check_counts(uint64_t handled, uint64_t pages)
{
	assert_int_equal(counted(&f, AV_ODP_COUNT_PREFETCHES), handled);
	assert_int_equal(counted(&f, AV_ODP_COUNT_PREFETCH_PAGES), pages);
	assert_int_equal(counted(&f, AV_ODP_COUNT_FAULTS), 0);
	assert_int_equal(counted(&f, AV_ODP_COUNT_CONTENTIONS), 0);
}

/* --- what becomes valid ---------------------------------------------------------- */

TEST_WITH(prefetch_is_for_reading, setup, teardown)
{
	assert_int_equal(advise(room + PAGE + 5, 3 * PAGE, READ, true), 0);
	assert_int_equal(missing(room + PAGE, 4 * PAGE, false), 0);
	assert_int_equal(missing(room, PAGES * PAGE, false), PAGES - 4);
	assert_int_equal(missing(room, PAGES * PAGE, true), PAGES);
	assert_true(present(room + PAGE) && present(room + 4 * PAGE));
	assert_true(!present(room) && !present(room + 5 * PAGE));
	check_counts(1, 4);
	assert_int_equal(advise(room, PAGES * PAGE, READ, true), 0); /* the rest */
	check_counts(2, PAGES);
}

TEST_WITH(prefetch_write_is_for_both, setup, teardown)
{
	struct av_odp_access access;

	assert_int_equal(advise(room, PAGES * PAGE, WRITE, true), 0);
	assert_int_equal(missing(room, PAGES * PAGE, false), 0);
	assert_int_equal(missing(room, PAGES * PAGE, true), 0);
	check_counts(1, PAGES);
	av_odp_begin(&f.seg, (uintptr_t)room, PAGES * PAGE, true, NULL, &access);
	av_odp_end(&access, true);
	check_counts(1, PAGES);
}

TEST_WITH(no_fault_takes_what_is_there, setup, teardown)
{
	room[2 * PAGE] = room[3 * PAGE] = room[7 * PAGE] = 1;
	assert_int_equal(advise(room + 1, PAGES * PAGE - 1, NO_FAULT, true), 0);
	for (int i = 0; i < PAGES; i++) {
		bool there = i == 2 || i == 3 || i == 7;

		assert_int_equal(present(room + i * PAGE), there);
		assert_int_equal(missing(room + i * PAGE, 1, false), !there);
		assert_int_equal(missing(room + i * PAGE, 1, true), 1);
	}
	check_counts(1, 3);
}

TEST_WITH(no_fault_in_much, setup, teardown)
{
	uint64_t bytes = 64 << 20;
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED && madvise(p, bytes, MADV_NOHUGEPAGE) == 0);
	for (uint64_t at = 0; at < bytes; at += 64 * PAGE)
		p[at] = 1;
	assert_int_equal(advise(p, bytes, NO_FAULT, true), 0);
	check_counts(1, bytes / PAGE / 64);
	munmap(p, bytes);
}

/* And nothing behind them. */
TEST_WITH(no_fault_in_many_runs, setup, teardown)
{
	uint64_t bytes = 3 * RUNS * PAGE;
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED && madvise(p, bytes, MADV_NOHUGEPAGE) == 0);
	for (uint64_t i = 0; i < RUNS; i++)
		p[2 * i * PAGE] = 1;
	assert_int_equal(advise(p, bytes, NO_FAULT, true), 0);
	check_counts(1, RUNS);
	munmap(p, bytes);
}

TEST_WITH(pieces_are_joined, setup, teardown)
{
	uint64_t bytes = 150ull << 20; /* of the zero page: reading costs no memory */
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(advise(p + 1, bytes - 2, READ, true), 0);
	assert_int_equal(missing(p, bytes, false), 0);
	check_counts(1, bytes / PAGE);
	munmap(p, bytes);
}

/* Its device uses the host's page tables. */
TEST_WITH(without_a_table_there_is_nothing_to_do, setup, teardown)
{
	f.seg.head->switches = AV_SWITCH_BIT(AV_SWITCH_CAPI);
	assert_int_equal(advise(room, PAGE, WRITE, true), 0);
	assert_false(present(room));
	check_counts(0, 0);
}

TEST_WITH(nothing_to_do, setup, teardown)
{
	assert_int_equal(advise(NULL, 0, WRITE, true), 0);
	check_counts(1, 0);
}

/* --- what is refused ------------------------------------------------------------- */

static void check_refused(const uint8_t *p, uint64_t len)
{
	assert_int_equal(advise(p, len, READ, true), EFAULT);
	assert_int_equal(advise(p, len, WRITE, true), EFAULT);
	assert_int_equal(advise(p, len, NO_FAULT, true), EFAULT);
	check_counts(0, 0);
}

TEST_WITH(what_is_not_mapped, setup, teardown)
{
	check_refused(room - PAGE, PAGE);
	check_refused(room - 1, 2);
	check_refused(room + (PAGES - 1) * PAGE, PAGE + 1);
	check_refused((uint8_t *)-1, 1);
	check_refused((uint8_t *)-PAGE, 2 * PAGE);
	check_refused((uint8_t *)(1ull << 62), PAGE);
	assert_int_equal(make_hole(room + 4 * PAGE), 0);
	check_refused(room, PAGES * PAGE);
	assert_int_equal(mprotect(room, PAGE, PROT_NONE), 0);
	check_refused(room, PAGE);
}

TEST_WITH(what_is_read_only, setup, teardown)
{
	assert_int_equal(mprotect(room, PAGES * PAGE, PROT_READ), 0);
	assert_int_equal(advise(room, PAGE, WRITE, true), EFAULT);
	check_counts(0, 0);
	assert_int_equal(advise(room, PAGE, READ, true), 0);
	check_counts(1, 1);
	assert_int_equal(advise(room, PAGES * PAGE, NO_FAULT, true), 0);
	check_counts(2, 1);
}

TEST_WITH(what_is_beyond_its_file, setup, teardown)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_true(p != MAP_FAILED && ftruncate(fd, PAGE) == 0);
	assert_int_equal(advise(p, 2 * PAGE, READ, true), EFAULT);
	assert_int_equal(advise(p, 2 * PAGE, WRITE, true), EFAULT);
	assert_int_equal(advise(p, PAGE, WRITE, true), 0);
	munmap(p, 2 * PAGE);
	close(fd);
}

TEST_WITH(ranges_before_a_failure_stay, setup, teardown)
{
	struct av_odp_range range[3] = {
		{(uintptr_t)room, 2 * PAGE},
		{(uintptr_t)room - PAGE, PAGE},
		{(uintptr_t)room + 4 * PAGE, PAGE},
	};

	assert_int_equal(av_odp_advise(&f.seg, range, 3, WRITE, true), EFAULT);
	assert_int_equal(missing(room, 2 * PAGE, true), 0);
	assert_int_equal(missing(room + 4 * PAGE, PAGE, true), 1);
	check_counts(0, 2);
}

/* --- later ----------------------------------------------------------------------- */

TEST_WITH(later_is_soon, setup, teardown)
{
	assert_int_equal(advise(room, PAGES * PAGE, WRITE, false), 0);
	av_odp_quiesce(&f.seg);
	assert_int_equal(missing(room, PAGES * PAGE, true), 0);
	check_counts(1, PAGES);
}

/* What takes a while has been begun, but not done, when it is asked for. */
TEST_WITH(later_is_waited_for, setup, teardown)
{
	uint64_t bytes = 150ull << 20; /* of the zero page */
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(advise(p, bytes, READ, false), 0);
	av_odp_quiesce(&f.seg);
	assert_int_equal(missing(p, bytes, false), 0);
	munmap(p, bytes);
}

TEST_WITH(later_failures_are_not_seen, setup, teardown)
{
	assert_int_equal(advise(room - PAGE, PAGE, WRITE, false), 0);
	assert_int_equal(advise(room, PAGE, WRITE, false), 0);
	av_odp_quiesce(&f.seg);
	check_counts(1, 1);
}

/* Holes among many ranges: the others are prefetched, but the call has not succeeded. */
TEST_WITH(later_goes_on_behind_a_failure, setup, teardown)
{
	static const enum ib_uverbs_advise_mr_advice all[] = {READ, WRITE, NO_FAULT};

	room[PAGE] = room[4 * PAGE] = 1;
	for (size_t i = 0; i < AV_ARRAY_SIZE(all); i++) {
		struct av_odp_range range[4] = {
			{(uintptr_t)room - PAGE, PAGE},
			{(uintptr_t)room + PAGE, PAGE},
			{(uintptr_t)room, AV_ODP_NOWHERE},
			{(uintptr_t)room + 4 * PAGE, PAGE},
		};

		av_odp_clear(&f.seg, (uintptr_t)room, PAGES * PAGE);
		assert_int_equal(av_odp_advise(&f.seg, range, 4, all[i], false), 0);
		av_odp_quiesce(&f.seg);
		assert_int_equal(missing(room + PAGE, PAGE, false), 0);
		assert_int_equal(missing(room + 4 * PAGE, PAGE, false), 0);
		check_counts(0, 2 * (i + 1));
	}
}

TEST_WITH(more_than_the_queue_holds, setup, teardown)
{
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(advise(room + i % PAGES * PAGE, PAGE, READ, false), 0);
	av_odp_quiesce(&f.seg);
	check_counts(500, PAGES);
}

/* Does the thread exist that follows advice later? */
static bool is_there_a_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	bool ret = false;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		char path[64], name[32] = "";
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", task->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0)
			ret = ret || !strcmp(name, "anyverbs-ahead\n");
		if (fd >= 0)
			close(fd);
	}
	closedir(tasks);
	return ret;
}

TEST_WITH(the_thread_ends_and_comes_again, setup, teardown)
{
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(advise(room + i * PAGE, PAGE, WRITE, false), 0);
		av_odp_quiesce(&f.seg);
		assert_int_equal(missing(room, (i + 1) * PAGE, true), 0);
		assert_true(WAIT_UNTIL(!is_there_a_thread(), 60000));
	}
}

/* The child has neither the thread nor what was queued. */
TEST_WITH(a_forked_child_begins_anew, setup, teardown)
{
	int status;
	pid_t pid;

	assert_int_equal(advise(room, PAGE, READ, false), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct fake_seg g;

		alarm(60);
		av_odp_quiesce(&f.seg);
		if (UNDER_TSAN)
			_exit(0);
		fake_open(&g, 2);
		f = g;
		CHECK(advise(room, PAGES * PAGE, WRITE, false) == 0);
		av_odp_quiesce(&f.seg);
		CHECK(missing(room, PAGES * PAGE, true) == 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	av_odp_quiesce(&f.seg);
	check_counts(1, 1);
}

/* --- pages that go away meanwhile ------------------------------------------------ */

static atomic_bool stop;

static void *disturb(void *arg)
{
	while (!atomic_load(&stop))
		av_odp_clear(&f.seg, (uintptr_t)room, PAGE);
	return NULL;
}

/* Restarted, counted, and in the end done: advice is not held up for ever, nor does it fail. */
TEST_WITH(restarts_are_counted, setup, teardown)
{
	uint64_t end = av_now_ns() + 60000000000u;
	pthread_t t;
	int n = 0;

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&t, NULL, disturb, NULL), 0);
	while (counted(&f, AV_ODP_COUNT_CONTENTIONS) == 0 && av_now_ns() < end) {
		assert_int_equal(advise(room, PAGES * PAGE, n % 2 ? READ : NO_FAULT, true), 0);
		n++;
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	assert_true(counted(&f, AV_ODP_COUNT_CONTENTIONS) > 0);
	assert_int_equal(counted(&f, AV_ODP_COUNT_PREFETCHES), n);
	assert_int_equal(advise(room, PAGES * PAGE, WRITE, true), 0);
	assert_int_equal(missing(room, PAGES * PAGE, true), 0);
}

TEST_WITH(pages_that_were_thrown_away_are_not_valid, setup, teardown)
{
	uint64_t before;

	if (fake_uffd(&f) < 0)
		skip();
	assert_int_equal(advise(room, PAGES * PAGE, WRITE, true), 0);
	assert_int_equal(madvise(room + PAGE, 2 * PAGE, MADV_DONTNEED), 0);
	av_odp_settle(&f.seg);
	assert_int_equal(missing(room, PAGES * PAGE, false), 2);
	before = counted(&f, AV_ODP_COUNT_PREFETCH_PAGES);
	assert_int_equal(advise(room, PAGES * PAGE, WRITE, true), 0);
	assert_int_equal(counted(&f, AV_ODP_COUNT_PREFETCH_PAGES), before + 2);
	assert_int_equal(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 1);
}

/* --- the order of counting ------------------------------------------------------- */

static void check_order(const _Atomic uint64_t *counter)
{
	uint64_t handled = atomic_load(&counter[AV_ODP_COUNT_PREFETCHES]);

	CHECK(atomic_load(&counter[AV_ODP_COUNT_PREFETCH_PAGES]) >= 2 * handled);
}

/* Looking at both, the device's and the context's, makes it slow to count in one after the other.
 */
static void *compare(void *arg)
{
	while (!atomic_load(&stop)) {
		check_order(f.seg.odp->value);
		check_order(f.seg.head->counter);
	}
	return NULL;
}

/* Who sees a prefetch sees its two pages: the moment between the two is looked for often. */
TEST_WITH(pages_are_counted_before_their_prefetch, setup, teardown)
{
	pthread_t t;

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&t, NULL, compare, NULL), 0);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		assert_int_equal(advise(room, 2 * PAGE, READ, true), 0);
		assert_int_equal(av_odp_clear(&f.seg, (uintptr_t)room, 2 * PAGE), 2);
		check_counts(i, 2 * i);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
}

/* --- others give advice on and on -------------------------------------------------- */

#define AT_MOST_S 60
#define MUCH	  (64ul << 20) /* so that advice is given faster than it is followed */

static _Atomic bool ended;

static void *advise_on_and_on(void *much)
{
	uint64_t until = av_now_ns() + AT_MOST_S * 1000000000ull;

	while (!atomic_load(&ended) && av_now_ns() < until)
		assert_int_equal(advise(much, MUCH, READ, false), 0);
	return NULL;
}

/* Only for the advice that was given before. */
TEST_WITH(the_end_of_a_region_does_not_wait_for_the_next_advice, setup, teardown)
{
	void *much = mmap(NULL, MUCH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;

	assert_ptr_not_equal(much, MAP_FAILED);
	atomic_store(&ended, false);
	assert_int_equal(pthread_create(&t, NULL, advise_on_and_on, much), 0);
	assert_true(WAIT_UNTIL(missing(much, MUCH, false) == 0, 60000));
	for (unsigned int i = 0; i < 3; i++)
		av_odp_quiesce(&f.seg);
	assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
	atomic_store(&ended, true);
	pthread_join(t, NULL);
	av_odp_quiesce(&f.seg);
	munmap(much, MUCH);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
