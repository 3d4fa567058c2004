/* SPDX-License-Identifier: MIT */
/*
 * mremap() of regions on the shared heap: they grow by zeros, and not by what lies behind them in
 * the file; and what they leave behind is empty, and nobody else's.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/few_descriptors.h"

/* A place of @bytes where nothing is. */
static uint8_t *free_place(size_t bytes)
{
	uint8_t *p = map_private(bytes);

	munmap(p, bytes);
	return p;
}

/* @q: what became of @had bytes, which were filled with @seed, when they were to be @bytes */
static void expect_grown(uint8_t *q, size_t had, size_t bytes, uint8_t seed)
{
	if (q == MAP_FAILED)
		DIE("mremap: errno %d", errno);
	expect_filled(q, had, seed);
	EXPECT(q[had] == 0 && !memcmp(q + had, q + had + 1, bytes - had - 1), "grown by something");
}

static void expect_kept_by_fork(uint8_t *p, size_t bytes, uint8_t seed)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		bool kept = same(p, bytes, seed) == bytes;

		memset(p, 0xee, bytes);
		_exit(!kept);
	}
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child has other bytes");
	expect_filled(p, bytes, seed);
}

static void grow_row(const char *how, int flags)
{
	static const uint8_t order[] = {0, 2, 1}; /* nothing is behind the last one */
	uint8_t *p[3], *q;
	struct ibv_mr *mr[3];

	row("a region grows: %s", how);
	for (size_t k = 0; k < COUNT_OF(order); k++) {
		uint8_t i = order[k];

		p[i] = map_private(BYTES);
		fill(p[i], BYTES, i);
		mr[i] = reg(p[i], BYTES);
	}
	q = mremap(p[1], BYTES, 2 * BYTES, flags,
		   flags & MREMAP_FIXED ? free_place(2 * BYTES) : NULL);
	expect_grown(q, BYTES, 2 * BYTES, 1);
	EXPECT(q == p[1] || !pages_mapped(p[1]), "and is where it was");
	fill(q, 2 * BYTES, 9);
	p[1] = mremap(q, 2 * BYTES, 3 * BYTES, MREMAP_MAYMOVE);
	expect_grown(p[1], 2 * BYTES, 3 * BYTES, 9);
	expect_kept_by_fork(p[1], 2 * BYTES, 9);
	expect_reached(p[2], mr[2]);
	for (int i = 0; i < 3; i++)
		dereg(mr[i]);
	expect_filled(p[0], BYTES, 0);
	expect_filled(p[1], 2 * BYTES, 9);
	munmap(p[0], BYTES);
	munmap(p[1], 3 * BYTES);
	munmap(p[2], BYTES);
}

/* The kernel cannot be asked what is there: it moves with its bytes, or stays with them. */
static void no_descriptor_row(void)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;
	struct rlimit all;

	row("a region grows: no descriptor is free");
	fill(p, BYTES, 10);
	mr = reg(p, BYTES);
	all = few_descriptors(0);
	q = mremap(p, BYTES, 64 * BYTES, MREMAP_MAYMOVE);
	setrlimit(RLIMIT_NOFILE, &all);
	if (q == MAP_FAILED)
		expect_filled(p, BYTES, 10);
	else
		expect_grown(q, BYTES, 64 * BYTES, 10);
	dereg(mr);
	munmap(q == MAP_FAILED ? p : q, q == MAP_FAILED ? BYTES : 64 * BYTES);
}

/* A thread that maps, and looks whether it keeps its memory. */
static void *mapper(void *over)
{
	size_t lost = 0;

	while (!*(volatile bool *)over) {
		uint8_t *p = map_private(BYTES);

		p[0] = 1;
		sched_yield();
		lost += p[0] != 1;
		munmap(p, BYTES);
	}
	return (void *)lost;
}

/* Nobody gets the place in between. */
static void leave_beside_row(void)
{
	const int leave = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
	uint8_t *p = map_private(BYTES), *q;
	volatile bool over = false;
	struct ibv_mr *mr;
	pthread_t thread;
	void *lost;

	row("a region moves, and its mapping stays, beside a thread that maps");
	fill(p, BYTES, 3);
	mr = reg(p, BYTES);
	pthread_create(&thread, NULL, mapper, (void *)&over);
	for (int i = 0; i < 250; i++) {
		q = mremap(p, BYTES, BYTES, leave);
		if (!EXPECT(q != MAP_FAILED, "mremap: errno %d", errno))
			break;
		EXPECT(p[0] == 0 && p[BYTES - 1] == 0, "it has the bytes still");
		EXPECT(mremap(q, BYTES, BYTES, leave | MREMAP_FIXED, p) == p, "errno %d", errno);
		munmap(q, BYTES);
	}
	over = true;
	pthread_join(thread, &lost);
	EXPECT(!lost, "%zu of its mappings were replaced", (size_t)lost);
	expect_filled(p, BYTES, 3);
	dereg(mr);
	munmap(p, BYTES);
}

/* Nobody is given what is behind the old addresses in the file. */
static void moved_row(void)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;

	row("a region moves and shrinks");
	fill(p, BYTES, 5);
	mr = reg(p, BYTES);
	q = mremap(p, BYTES, BYTES / 2, MREMAP_MAYMOVE | MREMAP_FIXED, free_place(BYTES / 2));
	EXPECT(q != MAP_FAILED, "mremap: errno %d", errno);
	EXPECT(!pages_mapped(p) && !pages_mapped(p + BYTES - PAGE), "and is where it was");
	dereg(mr);
	for (int i = 0; i < 3; i++) {
		uint8_t *other = map_private(BYTES);

		fill(other, BYTES, 17);
		mr = reg(other, BYTES);
		expect_filled(q, BYTES / 2, 5);
		dereg(mr);
		munmap(other, BYTES);
	}
	munmap(q, BYTES / 2);
}

static void run(void)
{
	grow_row("where it is", 0);
	grow_row("anywhere", MREMAP_MAYMOVE);
	grow_row("elsewhere", MREMAP_MAYMOVE | MREMAP_FIXED);
	no_descriptor_row();
	leave_beside_row();
	moved_row();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
