/* SPDX-License-Identifier: MIT */
/*
 * Regions on the shared heap that overlap, change, or are closed with their context, on memory that
 * the program stores to, discards and moves: its bytes are its own all the time.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/peer_memory.h"
#include "lib/sandbox.h"

/* --- regions --------------------------------------------------------------------- */

static void absent_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("pages that are not there yet");
	p[5 * PAGE] = 5;
	mr = reg(p, BYTES);
	EXPECT(p[5 * PAGE] == 5, "contents");
	p[5 * PAGE] = 0;
	EXPECT(p[0] == 0 && !memcmp(p, p + 1, BYTES - 1), "not zeros");
	dereg(mr);
	peer_memory_unmap(p, BYTES);
}

static void overlap_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *all, *part, *more;

	row("regions on the same pages");
	fill(p, BYTES, 3);
	all = reg(p, BYTES);
	part = reg(p + PAGE, 4 * PAGE);
	dereg(all);
	expect_reached(p + PAGE, part);
	more = reg(p, BYTES);
	expect_reached(p, more);
	dereg(part);
	fill(p, BYTES, 4);
	dereg(more);
	expect_filled(p, BYTES, 4);
	peer_memory_unmap(p, BYTES);
}

static void rereg_row(void)
{
	uint8_t *p = map_private(BYTES), *q = map_private(BYTES);
	struct ibv_mr *mr;

	row("ibv_rereg_mr()");
	fill(p, BYTES, 5);
	fill(q, BYTES, 6);
	mr = reg(p, BYTES);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, BYTES, 0) == 0,
	       "errno %d", errno);
	expect_filled(p, BYTES, 5);
	expect_filled(q, BYTES, 6);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_REMOTE_READ) == 0,
	       "errno %d", errno);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, PROBE_ALL) == 0,
	       "errno %d", errno);
	expect_reached(q, mr);
	expect_filled(p, BYTES, 5);
	dereg(mr);
	peer_memory_unmap(p, BYTES);
	peer_memory_unmap(q, BYTES);
}

static void close_row(void)
{
	struct ibv_context *ctx = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	uint8_t *p = map_private(BYTES);

	row("a context that is closed with a region");
	fill(p, BYTES, 7);
	EXPECT(pd && ibv_reg_mr(pd, p, BYTES, PROBE_ALL), "ibv_reg_mr");
	ibv_close_device(ctx);
	expect_filled(p, BYTES, 7);
	peer_memory_unmap(p, BYTES);
}

static void leak_row(void)
{
	uint8_t *p = map_private(BYTES);
	size_t before = 0;

	row("again and again");
	for (int i = 0; i < 2000; i++) {
		dereg(reg(p, BYTES));
		if (i == 100)
			before = segment_bytes(getpid());
	}
	EXPECT(segment_bytes(getpid()) <= before + 16 * PAGE,
	       "the segment grew from %zu to %zu bytes", before, segment_bytes(getpid()));
	peer_memory_unmap(p, BYTES);
}

/* --- the program meanwhile ------------------------------------------------------- */

/* Of every thread of the process. */
static int set_affinity_of_all(const cpu_set_t *set)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int ret = tasks ? 0 : -1;

	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			ret |= sched_setaffinity(atoi(entry->d_name), sizeof(*set), set) &&
			       errno != ESRCH; /* it has ended meanwhile */
	if (tasks)
		closedir(tasks);
	return ret;
}

/* On one processor, where the listener may be late: what it hears of is discarded by then. */
static void discard_and_store_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);
	unsigned int lost = 0;
	cpu_set_t all, one;

	row("what is stored after madvise() stays");
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_getaffinity(0, sizeof(all), &all) || set_affinity_of_all(&one))
		DIE("affinity: errno %d", errno);
	for (unsigned int i = 0; i < 20000; i++) {
		EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0, "errno %d", errno);
		memset(p, 1, 2 * PAGE);
		sched_yield();
		lost += p[0] != 1 || p[2 * PAGE - 1] != 1;
	}
	EXPECT(lost == 0, "%u stores were lost", lost);
	set_affinity_of_all(&all);
	dereg(mr);
	peer_memory_unmap(p, BYTES);
}

static void run(void)
{
	absent_row();
	overlap_row();
	rereg_row();
	if (!TEST_SANITIZED) /* what a program leaks so is its own */
		close_row();
	leak_row();
	discard_and_store_row();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
