/* SPDX-License-Identifier: MIT */
/* Contexts that come and go, forked children, and programs that close our descriptor: who is still
 * told. */
#include "lib/few_descriptors.h"
#include "odp_notify_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "lib/wait.h"

static void close_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE), *q = map_kind(SHARED);
	struct fake_seg g;
	int fds, threads;

	CHECK(fake_uffd(&f) >= 0);
	av_odp_notify_end(&f.seg);
	fds = entries_of("/proc/self/fd");
	threads = entries_of("/proc/self/task");
	for (int i = 0; i < 20; i++) {
		fake_open(&g, 2);
		av_odp_notify_begin(&f.seg);
		av_odp_notify_begin(&f.seg);
		av_odp_notify_begin(&g.seg);
		CHECK(access_at(p, PAGES * PAGE, true) && access_at(q, PAGES * PAGE, true));
		CHECK(madvise(q, PAGES * PAGE, MADV_DONTNEED) == 0 &&
		      !is_valid(q)); /* watched anew */
		av_odp_notify_end(&f.seg);
		CHECK(fake_uffd(&f) == -1 && fake_uffd(&g) >= 0);
		CHECK(madvise(p, PAGES * PAGE, MADV_DONTNEED) == 0);
		CHECK(is_valid(p)); /* nobody is watching for this context */
		av_odp_notify_end(&g.seg);
		av_odp_notify_end(&g.seg);
		CHECK(fake_uffd(&g) == -1);
		fake_close(&g);
		CHECK(munmap(q, PAGE) == 0 &&
		      mmap(q, PAGE, 3, MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS, -1, 0) == q);
		CHECK(madvise(q, PAGES * PAGE, MADV_DONTNEED) == 0); /* does not wait for anybody */
	}
	/* A thread is there for a moment after it has been joined; perhaps one was before. */
	CHECK(WAIT_UNTIL(entries_of("/proc/self/task") <= threads, 30000));
	CHECK(WAIT_UNTIL(entries_of("/proc/self/fd") <= fds, 30000));
}

TEST(the_last_context_leaves_nothing_behind)
{
	as_both(close_child, NULL);
}

static void two_contexts_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	struct av_odp_access access;
	struct fake_seg g;

	fake_open(&g, 2);
	av_odp_notify_begin(&g.seg);
	CHECK(access_at(p, PAGES * PAGE, true));
	av_odp_begin(&g.seg, (uintptr_t)p, 2 * PAGE, true, NULL, &access);
	CHECK_EQUAL(access.missing, 2);
	av_odp_end(&access, true);
	CHECK(munmap(p, PAGES * PAGE) == 0);
	check_only_invalid(p, 0, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES), PAGES);
	CHECK_EQUAL(counted(&g, AV_ODP_COUNT_INVALIDATION_PAGES), 2);
}

TEST(every_context_hears_of_it)
{
	as_both(two_contexts_child, NULL);
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

		alarm(60);
		CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0);
		CHECK(munmap(p + PAGE, PAGE) == 0);
		av_odp_notify_end(&f.seg);
		if (UNDER_TSAN)
			_exit(0);
		fake_open(&g, 3); /* the child's own */
		av_odp_notify_begin(&g.seg);
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

TEST(a_forked_child_is_somebody_else)
{
	as_both(fork_child, NULL);
}

/* A program that closes all descriptors, and opens its own: nothing of its is read, and it does not
 * hang. */
static void closed_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	int uffd = fake_uffd(&f), ends[2];
	char bytes[64] = {0};

	CHECK(access_at(p, PAGES * PAGE, true));
	CHECK(pipe(ends) == 0 && dup2(ends[0], uffd) == uffd && close(ends[0]) == 0);
	CHECK(write(ends[1], bytes, sizeof(bytes)) == sizeof(bytes));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	CHECK(WAIT_UNTIL(fake_uffd(&f) == -1, 20000));
	CHECK(read(uffd, bytes, sizeof(bytes)) == sizeof(bytes));
	p = map_kind(PRIVATE);
	CHECK(access_at(p, PAGES * PAGE, true));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	av_odp_notify_end(&f.seg);
	CHECK(fcntl(uffd, F_GETFD) >= 0);
}

TEST(a_program_may_close_our_descriptor)
{
	as_both(closed_child, NULL);
}

/* A want of descriptors passes: it is tried again. */
static void short_child(const void *arg)
{
	struct rlimit was;
	uint8_t *p = map_kind(PRIVATE);

	av_odp_notify_end(&f.seg);
	was = few_descriptors(0);
	av_odp_notify_begin(&f.seg);
	CHECK(fake_uffd(&f) == -1);
	CHECK(setrlimit(RLIMIT_NOFILE, &was) == 0);
	av_odp_notify_begin(&f.seg);
	CHECK(fake_uffd(&f) >= 0);
	CHECK(access_at(p, PAGES * PAGE, true) && munmap(p, PAGES * PAGE) == 0 && !is_valid(p));
}

TEST(without_descriptors_it_is_tried_again)
{
	as_both(short_child, NULL);
}

/* A context goes in the middle of a round: nobody waits for its end. */
static void amid_child(const void *arg)
{
	for (uint64_t odd = 1; odd <= 3; odd += 2) {
		av_odp_notify_begin(&f.seg);
		atomic_store(&f.seg.head->odp_seq, odd);
		av_odp_notify_end(&f.seg);
		CHECK_EQUAL(atomic_load(&f.seg.head->odp_seq), odd + 1);
	}
}

TEST(a_context_leaves_no_round_open)
{
	as_both(amid_child, NULL);
}

int main(void)
{
	if (!can_watch())
		return 77;
	return run_cases(NULL, NULL);
}
