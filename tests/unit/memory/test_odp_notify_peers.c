/* SPDX-License-Identifier: MIT */
/* Pages that another process resolves, before their owner has touched them: they are watched, too.
 */
#include "odp_notify_fixture.h"
#include "segment/segment.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "base/clock.h"

/* The first fault is resolved by another process, before the owner has ever touched the page. */
static void as_peer(uint8_t *p, pid_t owner, struct av_odp_access *access)
{
	char x = 'x';
	struct iovec local = {.iov_base = &x, .iov_len = 1}, remote = {.iov_base = p, .iov_len = 1};

	f.seg.own = false;
	atomic_store(&f.seg.alive_ns, av_now_coarse_ns()); /* there is no directory to ask */
	av_odp_begin(&f.seg, (uintptr_t)p, 1, true, NULL, access);
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

		alarm(60);
		av_peer_process_open(&f.seg.process, owner);
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

TEST(what_a_peer_resolves_is_watched_too)
{
	as_both(peer_child, NULL);
}

int main(void)
{
	if (!can_watch())
		return 77;
	return run_cases(NULL, NULL);
}
