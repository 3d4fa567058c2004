/* SPDX-License-Identifier: MIT */
/* That nobody waits for ever: threads that unmap what others access, and owners that were stopped.
 */
#include "odp_notify_fixture.h"

#include <pthread.h>

#include "base/clock.h"

static uint8_t *ground;
static atomic_bool stop_all;

static void *unmapper(void *arg)
{
	while (!atomic_load(&stop_all)) {
		if (SANITIZED) /* whose other threads would map something into the hole */
			mmap(ground, PAGES * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		else
			munmap(ground, PAGES * PAGE);
		mmap(ground, PAGES * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
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

TEST(threads_that_unmap_do_not_hang)
{
	as_both(hang_child, NULL);
}

/* An owner that was stopped in the middle of handling events delays its peers' accesses a little,
 * no more. */
static void stopped_child(const void *arg)
{
	uint64_t start = av_now_ns();

	f.seg.own = false;
	atomic_store(&f.seg.head->odp_seq, 1);
	av_odp_settle(&f.seg);
	CHECK(av_now_ns() - start < 20000000000u);
}

TEST(a_stopped_owner_stops_nobody)
{
	in_child(stopped_child, NULL, false);
}

int main(void)
{
	if (!can_watch())
		return 77;
	return run_cases(NULL, NULL);
}
