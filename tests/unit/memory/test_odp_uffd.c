/* SPDX-License-Identifier: MIT */
/* What the listener shares: contexts, unmappings to ignore, calls reported in parts; who waits. */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fake_seg.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/odp_notify.c" /* with what is static in it */

#define CONTEXTS    3u
#define NUMBER	    1000 /* of the descriptor, which only the kernel's calls below look at */
#define PAGE	    4096ull
#define YIELDS	    20u
#define PATIENCE_MS 30000u

static struct av_seg segs[CONTEXTS];

static int set_up(void **state)
{
	atomic_store(&listener.fd, NUMBER);
	return 0;
}

static int tear_down(void **state)
{
	reset_listener();
	return 0;
}

/* --- the kernel ------------------------------------------------------------------ */

static struct {
	unsigned int calls, outstanding; /* how often there is something to read */
	int error;			 /* afterwards */
} kernel;

int ioctl(int fd, unsigned long request, ...)
{
	assert_int_equal(fd, own_uffd());
	assert_true(request == UFFDIO_WRITEPROTECT);
	errno = kernel.calls++ < kernel.outstanding ? EAGAIN : kernel.error;
	return errno ? -1 : 0;
}

/* --- contexts -------------------------------------------------------------------- */

TEST_WITH(contexts_come_and_go, set_up, tear_down)
{
	assert_int_equal(atomic_load(&listener.used), 0);
	for (uint32_t i = 0; i < CONTEXTS; i++) {
		assert_int_equal(find_context(&segs[i]), AV_REF_SLOTS);
		assert_true(add_to_contexts(&segs[i]));
		assert_int_not_equal(find_context(&segs[i]), AV_REF_SLOTS);
		assert_int_equal(atomic_load(&listener.used), i + 1);
		assert_ptr_equal(context_at(i), &segs[i]);
	}
	for (uint32_t i = 0; i < CONTEXTS; i++) {
		remove_from_contexts(&segs[i]);
		remove_from_contexts(&segs[i]); /* again: nothing */
		assert_int_equal(find_context(&segs[i]), AV_REF_SLOTS);
		assert_null(context_at(i));
		assert_true(add_to_contexts(&segs[i]));
		assert_ptr_equal(context_at(i), &segs[i]); /* in the free place */
		assert_int_equal(atomic_load(&listener.used), CONTEXTS);
	}
}

TEST_WITH(there_is_room_for_all_contexts_and_no_more, set_up, tear_down)
{
	static struct av_seg many[AV_REF_SLOTS];

	for (uint32_t i = 0; i < AV_REF_SLOTS; i++)
		assert_true(add_to_contexts(&many[i]));
	assert_int_equal(atomic_load(&listener.used), AV_REF_SLOTS);
	assert_int_not_equal(find_context(&many[AV_REF_SLOTS - 1]), AV_REF_SLOTS);
	assert_int_equal(find_context(&segs[0]), AV_REF_SLOTS);
	assert_false(add_to_contexts(&segs[0]));
}

TEST_WITH(every_context_forgets_what_was_watched, set_up, tear_down)
{
	struct fake_seg f[2];

	for (unsigned int i = 0; i < 2; i++) {
		fake_open(&f[i], i + 1);
		assert_true(add_to_contexts(&f[i].seg));
	}
	assert_non_null(forget_seen()); /* they have no table yet */
	end_use();
	for (unsigned int i = 0; i < 2; i++)
		atomic_store(&av_odp_root_make(&f[i].seg)->unmaps, 5);
	assert_non_null(forget_seen());
	end_use();
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_not_equal(atomic_load(&av_odp_root(&f[i].seg)->unmaps), 5);
		fake_close(&f[i]);
	}
}

TEST_WITH(a_forked_child_begins_anew, set_up, tear_down)
{
	uint64_t begin = 5 * PAGE, end = 6 * PAGE;
	int fd = own_uffd();

	assert_true(add_to_contexts(&segs[0]));
	assert_true(add_to_contexts(&segs[1]));
	expect_unmapping(PAGE, PAGE);
	for (unsigned int i = 0; i < CALLS; i++)
		assert_int_equal(av_odp_discard_begin(4 * PAGE, 3 * PAGE), i);
	turn_round();
	reset_listener();
	assert_int_equal(own_uffd(), -1);
	assert_int_equal(atomic_load(&listener.used), 0);
	assert_null(context_at(0));
	assert_null(context_at(1));
	assert_false(is_expected(PAGE, 2 * PAGE));
	widen_to_call(&begin, &end);
	assert_true(begin == 5 * PAGE && end == 6 * PAGE);
	expect_end(); /* no round is going on */
	atomic_store(&listener.fd, fd);
}

/* --- unmappings to ignore -------------------------------------------------------- */

static const struct {
	uint64_t begin, end;
	bool expected;
} unmappings[] = {
	{4 * PAGE, 6 * PAGE, true},  {4 * PAGE, 5 * PAGE, false}, {5 * PAGE, 6 * PAGE, false},
	{3 * PAGE, 6 * PAGE, false}, {4 * PAGE, 7 * PAGE, false}, {0, 0, false},
};

TEST_WITH(only_the_expected_unmapping_is_ignored, set_up, tear_down)
{
	expect_unmapping(4 * PAGE, 2 * PAGE);
	for (size_t i = 0; i < AV_ARRAY_SIZE(unmappings); i++)
		if (is_expected(unmappings[i].begin, unmappings[i].end) != unmappings[i].expected)
			fail_msg("row %zu", i);
	expect_end();
	assert_false(is_expected(4 * PAGE, 6 * PAGE));
}

static _Atomic bool ended;
static _Atomic unsigned int yields;

/* Whoever waits for the listener does this again and again. Instead of the C library's. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	atomic_fetch_add(&yields, 1);
	return (int)syscall(SYS_sched_yield);
}

static void until_waited_for(void)
{
	unsigned int before = atomic_load(&yields);

	(void)WAIT_UNTIL(atomic_load(&yields) - before > YIELDS, PATIENCE_MS);
}

static void *end_round(void *arg)
{
	until_waited_for();
	atomic_store(&ended, true);
	turn_round();
	return NULL;
}

/* The listener may still be handling what it has read. */
TEST_WITH(the_round_is_waited_for, set_up, tear_down)
{
	void (*const waits[])(void) = {expect_end, av_odp_barrier};

	for (size_t i = 0; i < AV_ARRAY_SIZE(waits); i++) {
		pthread_t thread;

		waits[i](); /* none is going on: at once */
		atomic_store(&ended, false);
		turn_round();
		assert_int_equal(pthread_create(&thread, NULL, end_round, NULL), 0);
		waits[i]();
		assert_true(atomic_load(&ended));
		pthread_join(thread, NULL);
	}
}

static void *end_other_use(void *arg)
{
	until_waited_for();
	atomic_store(&ended, true);
	end_use();
	return NULL;
}

/* And behind whoever else uses contexts. */
TEST_WITH(a_context_is_removed_behind_the_round, set_up, tear_down)
{
	struct fake_seg f;

	fake_open(&f, 1);
	for (unsigned int round = 0; round < 2; round++) {
		pthread_t thread;

		assert_true(add_to_contexts(&f.seg));
		atomic_store(&ended, false);
		if (round)
			turn_round();
		else
			assert_ptr_equal(forget_seen(), &f.seg);
		assert_int_equal(
			pthread_create(&thread, NULL, round ? end_round : end_other_use, NULL), 0);
		remove_from_contexts(&f.seg);
		assert_true(atomic_load(&ended));
		pthread_join(thread, NULL);
	}
	fake_close(&f);
}

/* --- what has not been read ------------------------------------------------------ */

static const struct {
	unsigned int outstanding;
	int error;
} answers[] = {{0, EINVAL}, {0, 0}, {1, EINVAL}, {150, EINVAL}};

TEST_WITH(unread_events_are_waited_for, set_up, tear_down)
{
	int fd = own_uffd();

	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(answers); i++) {
		kernel.calls = 0;
		kernel.outstanding = answers[i / 2].outstanding;
		kernel.error = answers[i / 2].error;
		atomic_store(&listener.fd, i % 2 ? 0 : fd); /* whatever its number is */
		errno = EIO;
		av_odp_barrier();
		assert_int_equal(errno, EIO);
		assert_int_equal(kernel.calls, kernel.outstanding + 1);
	}
	atomic_store(&listener.fd, fd);
}

/* But not for ever: whoever unmaps may be stopped in the middle. */
TEST_WITH(an_event_that_is_not_read_is_given_up, set_up, tear_down)
{
	uint64_t begin = av_now_ns();

	kernel.calls = 0;
	kernel.outstanding = UINT32_MAX;
	av_odp_barrier();
	assert_true(kernel.calls > 1);
	assert_true(av_now_ns() - begin > 500000000u);
	kernel.outstanding = 0;
}

/* --- what is in the works -------------------------------------------------------- */

static void *end_handling(void *seg)
{
	until_waited_for();
	atomic_store(&ended, true);
	atomic_fetch_add(&((struct av_seg *)seg)->head->odp_seq, 1);
	return NULL;
}

TEST_WITH(statistics_are_read_when_all_is_handled, set_up, tear_down)
{
	struct fake_seg f;
	pthread_t thread;
	uint64_t begin;

	fake_open(&f, 1);
	for (uint64_t even = 0; even <= 2; even += 2) {
		atomic_store(&f.seg.head->odp_seq, even);
		av_odp_settle_to_read(&f.seg); /* at once */
		atomic_store(&f.seg.head->odp_seq, even + 1);
		atomic_store(&ended, false);
		assert_int_equal(pthread_create(&thread, NULL, end_handling, &f.seg), 0);
		begin = av_now_ns();
		av_odp_settle_to_read(&f.seg);
		assert_true(atomic_load(&ended) || av_now_ns() - begin >= AV_PEER_TIMEOUT_NS / 2);
		pthread_join(thread, NULL);
	}
	fake_close(&f);
}

/* --- one call, several reports --------------------------------------------------- */

static const struct {
	uint64_t begin, end; /* of a report */
	uint64_t from, to;   /* of its call, or the same */
} reports[] = {
	/* of a call for the pages 10 to 19 */
	{10 * PAGE, 20 * PAGE, 10 * PAGE, 20 * PAGE},
	{10 * PAGE, 11 * PAGE, 10 * PAGE, 20 * PAGE},
	{19 * PAGE, 20 * PAGE, 10 * PAGE, 20 * PAGE},
	{14 * PAGE, 15 * PAGE, 10 * PAGE, 20 * PAGE},
	/* of another */
	{9 * PAGE, 11 * PAGE, 9 * PAGE, 11 * PAGE},
	{19 * PAGE, 21 * PAGE, 19 * PAGE, 21 * PAGE},
	{20 * PAGE, 21 * PAGE, 20 * PAGE, 21 * PAGE},
	{5 * PAGE, 6 * PAGE, 5 * PAGE, 6 * PAGE},
};

static void expect_reports(uint32_t place)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(reports); i++) {
		uint64_t begin = reports[i].begin, end = reports[i].end;

		widen_to_call(&begin, &end);
		if (begin != reports[i].from || end != reports[i].to)
			fail_msg("place %u, row %zu", place, i);
	}
}

TEST_WITH(a_report_is_widened_to_its_call, set_up, tear_down)
{
	uint32_t other[CALLS];

	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t begin = 10 * PAGE, end = 11 * PAGE;
		uint32_t call = av_odp_discard_begin(10 * PAGE, 10 * PAGE);

		assert_int_equal(call, i);
		expect_reports(call);
		av_odp_discard_end(call);
		widen_to_call(&begin, &end); /* it is over */
		assert_true(begin == 10 * PAGE && end == 11 * PAGE);
		other[i] = av_odp_discard_begin(100 * PAGE, PAGE);
		assert_int_equal(other[i], i);
	}
	assert_int_equal(av_odp_discard_begin(10 * PAGE, PAGE), CALLS); /* no room */
	av_odp_discard_end(CALLS);
	for (uint32_t i = 0; i < CALLS; i++)
		av_odp_discard_end(other[i]);
	assert_int_equal(av_odp_discard_begin(10 * PAGE, PAGE), 0);
	av_odp_discard_end(0);
}

TEST_WITH(nobody_listens, set_up, tear_down)
{
	int fd = own_uffd();

	assert_int_equal(av_odp_discard_begin(0, PAGE), CALLS);
	atomic_store(&listener.fd, 0);
	assert_int_equal(av_odp_discard_begin(PAGE, PAGE), 0);
	av_odp_discard_end(0);
	atomic_store(&listener.fd, -1);
	assert_int_equal(av_odp_discard_begin(PAGE, PAGE), CALLS);
	turn_round();
	av_odp_barrier(); /* waits for nobody */
	turn_round();
	atomic_store(&listener.fd, fd);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
