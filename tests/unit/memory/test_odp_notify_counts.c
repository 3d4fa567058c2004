/* SPDX-License-Identifier: MIT */
/* What accesses count, to the last one: faults, those without resolution, and invalidations
 * meanwhile. */
#include "odp_notify_fixture.h"

#include <pthread.h>

#include "base/compiler.h"

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

TEST(faults_are_counted)
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

TEST(what_cannot_be_resolved_is_counted)
{
	as_both(failures_child, NULL);
}

static void contention_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	struct av_odp_access access;

	av_odp_begin(&f.seg, (uintptr_t)p, PAGE, true, NULL, &access);
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

TEST(an_invalidation_during_a_fault_is_a_contention)
{
	as_both(contention_child, NULL);
}

static void *burn(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		av_pause();
	return NULL;
}

/* Who sees an event sees its two pages. */
static void *compare(void *arg)
{
	while (!atomic_load((atomic_bool *)arg)) {
		uint64_t faults = counted(&f, AV_ODP_COUNT_FAULTS);
		uint64_t invalidations = counted(&f, AV_ODP_COUNT_INVALIDATIONS);

		CHECK(counted(&f, AV_ODP_COUNT_FAULT_PAGES) >= 2 * faults);
		CHECK(counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES) >= 2 * invalidations);
	}
	return NULL;
}

/* After munmap() has returned, the very next access knows: not once in a thousand is it too early.
 */
static void exact_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	atomic_bool stop = false;
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&t[i], NULL, i ? compare : burn, &stop) == 0);
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

TEST(an_access_after_an_unmap_is_never_too_early)
{
	as_both(exact_child, NULL);
}

int main(void)
{
	if (!can_watch())
		return 77;
	return run_cases(NULL, NULL);
}
