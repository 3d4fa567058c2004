/* SPDX-License-Identifier: MIT */
/* Memory of which no invalidation is told: accesses are right all the same, and find out by
 * themselves. */
#include "odp_notify_fixture.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>

/* A range that the program watches itself is left alone, and everything works but the count of
 * invalidations.
 */
static void busy_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range = {(uintptr_t)p, PAGES * PAGE},
				      .mode = UFFDIO_REGISTER_MODE_WP};

	CHECK(uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0 &&
	      ioctl(uffd, UFFDIO_REGISTER, &reg) == 0);
	CHECK(access_at(p, PAGES * PAGE, true) && is_valid(p));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 0);
	CHECK(!access_at(p, PAGE, true)); /* a hit that failed */
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 1);
	CHECK(!is_valid(p));
}

TEST(the_program_may_watch_its_memory_itself)
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

TEST(detached_memory_is_found_out)
{
	as_both(shm_child, NULL);
}

/* Where nothing can be watched, pages become valid all the same and accesses are counted. */
static void unwatched_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE);

	av_odp_notify_end(&f.seg);
	fake_close(&f);
	fake_open(&f, 2);
	CHECK(access_at(p, PAGES * PAGE, true) && access_at(p, PAGES * PAGE, true));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAULTS), 1);
	CHECK(munmap(p, PAGES * PAGE) == 0);
	CHECK(is_valid(p) && !access_at(p, PAGE, false) && !is_valid(p));
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_FAILED_RESOLUTIONS), 1);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 0);
}

TEST(nothing_watched_nothing_lost)
{
	as_both(unwatched_child, NULL);
}

int main(void)
{
	if (!can_watch())
		return 77;
	return run_cases(NULL, NULL);
}
