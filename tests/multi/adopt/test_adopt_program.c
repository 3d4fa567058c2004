/* SPDX-License-Identifier: MIT */
/*
 * Adopted memory, what the program does with it: it forks, discards, unmaps, moves and protects it,
 * and notices no difference.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif

static void fork_row(bool again)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	int status, go[2];
	pid_t child;
	char c = 0;

	row("fork%s", again ? ", once more" : "");
	fill(p, BYTES, 8);
	mr = reg(p, BYTES);
	if (pipe(go))
		DIE("pipe");
	child = fork();
	if (child == 0) {
		while (read(go[0], &c, 1) != 1) /* the parent has written by now */
			;
		status = same(p, BYTES, 8) == BYTES ? 0 : 1;
		fill(p, BYTES, 9);
		_exit(status);
	}
	fill(p, BYTES, 10);
	EXPECT(write(go[1], &c, 1) == 1, "write");
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "the child sees what its parent wrote");
	expect_filled(p, BYTES, 10);
	expect_reached(p, mr);
	fill(p, BYTES, 11);
	dereg(mr);
	expect_filled(p, BYTES, 11);
	close(go[0]);
	close(go[1]);
	munmap(p, BYTES);
}

static bool zero_within(const uint8_t *p, size_t bytes)
{
	uint64_t until = now_ms() + PATIENCE;
	bool zero;

	do {
		zero = true;
		for (size_t i = 0; i < bytes; i++)
			zero = zero && p[i] == 0;
	} while (!zero && now_ms() < until);
	return zero;
}

/* @by_number: not through the C library. */
static void discard_row(int advice, bool by_number)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	long ret;

	row("madvise(%d)%s", advice, by_number ? ", by number" : "");
	fill(p, BYTES, 12);
	mr = reg(p + PAGE, BYTES - 3 * PAGE); /* and neighbours that are not adopted */
	ret = by_number ? syscall(SYS_madvise, p, BYTES, advice) : madvise(p, BYTES, advice);
	if (advice == MADV_DONTNEED_LOCKED && ret && errno == EINVAL) {
		printf("left out: Linux before 5.18\n");
	} else if (advice != MADV_FREE) {
		EXPECT(ret == 0, "errno %d", errno);
		EXPECT(by_number ? zero_within(p, BYTES)
				 : p[0] == 0 && p[2 * PAGE] == 0 && p[BYTES - 1] == 0,
		       "not zeros");
		fill(p, BYTES, 13);
		expect_reached(p + PAGE, mr);
	} else if (!by_number) {
		EXPECT(ret == 0, "errno %d", errno);
	}
	fill(p, BYTES, 14);
	dereg(mr);
	expect_filled(p, BYTES, 14);
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[3 * PAGE] == 0, "discarding afterwards");
	munmap(p, BYTES);
}

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
	munmap(p, BYTES);
}

static void unmap_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("unmapping a part");
	fill(p, BYTES, 15);
	mr = reg(p, BYTES);
	munmap(p + 4 * PAGE, 2 * PAGE);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	expect_refused(p + 4 * PAGE, mr, PAGE);
	dereg(mr);
	expect_adopted(p, false);
	expect_adopted(p + 6 * PAGE, false);
	EXPECT(!pages_mapped(p + 4 * PAGE), "what was unmapped is there again");
	expect_filled(p, 4 * PAGE, 15);
	munmap(p, BYTES);
}

static void move_row(void)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;

	row("moving it elsewhere");
	fill(p, BYTES, 16);
	mr = reg(p, BYTES);
	q = mremap(p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, map_private(BYTES));
	EXPECT(q != MAP_FAILED, "mremap: errno %d", errno);
	dereg(mr);
	expect_filled(q, BYTES, 16);
	for (int i = 0; i < 3; i++) { /* nobody is given its pages */
		uint8_t *other = map_private(BYTES);

		fill(other, BYTES, 17);
		mr = reg(other, BYTES);
		expect_filled(q, BYTES, 16);
		dereg(mr);
		munmap(other, BYTES);
	}
	munmap(q, BYTES);
}

static void protect_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	int status;
	pid_t child;

	row("protecting a part");
	fill(p, BYTES, 18);
	mr = reg(p, BYTES);
	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	dereg(mr);
	expect_filled(p, BYTES, 18);
	child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		p[2 * PAGE] = 0;
		_exit(0);
	}
	waitpid(child, &status, 0);
	EXPECT(WIFSIGNALED(status), "it can be written");
	munmap(p, BYTES);
}

static void run(void)
{
	fork_row(false);
	fork_row(true);
	discard_row(MADV_DONTNEED, false);
	discard_row(MADV_DONTNEED, true);
	discard_row(MADV_DONTNEED_LOCKED, false);
	discard_row(MADV_FREE, false);
	discard_and_store_row();
	unmap_row();
	move_row();
	protect_row();
}

int main(int argc, char **argv)
{
	return adopt_test(argc, argv, run);
}
