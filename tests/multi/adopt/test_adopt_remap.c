/* SPDX-License-Identifier: MIT */
/*
 * mremap() of memory that is or was adopted: it grows by zeros, and not by what lies behind it in
 * the segment; it is one mapping for the program, whatever it is for the kernel; and what it leaves
 * behind is empty.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"
#include "lib/few_descriptors.h"
#include "lib/userfaultfd.h"
#include "lib/wait.h"

#define LARGE (16ul << 20) /* moves out in several pieces */

static bool is_zeros(const uint8_t *p, size_t bytes)
{
	return p[0] == 0 && !memcmp(p, p + 1, bytes - 1);
}

static uint8_t *without_huge(size_t bytes)
{
	uint8_t *p = map_private(bytes);

	madvise(p, bytes, MADV_NOHUGEPAGE); /* memory with huge pages is not adopted */
	return p;
}

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
	if (!EXPECT(q != MAP_FAILED, "mremap: errno %d", errno))
		return;
	expect_filled(q, had < bytes ? had : bytes, seed);
	EXPECT(bytes <= had || is_zeros(q + had, bytes - had), "grown by something");
}

/* --- while there is a region ------------------------------------------------------ */

static void grow_row(const char *how, int flags)
{
	uint8_t *p[3], *q;
	struct ibv_mr *mr[3];
	int status = -1;
	pid_t child;

	row("a region grows: %s", how);
	for (uint8_t i = 0; i < 3; i++) {
		p[i] = i == 1 ? free_place(3 * BYTES) : map_private(BYTES);
		if (i == 1) /* with room behind it */
			p[i] = mmap(p[i], BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		fill(p[i], BYTES, i);
		mr[i] = reg_adopted(p[i], BYTES);
	}
	q = flags & MREMAP_FIXED ? mremap(p[1], BYTES, 2 * BYTES, flags, free_place(2 * BYTES))
				 : mremap(p[1], BYTES, 2 * BYTES, flags);
	expect_grown(q, BYTES, 2 * BYTES, 1);
	EXPECT(q == p[1] || !pages_mapped(p[1]), "and is where it was");
	fill(q, 2 * BYTES, 9);
	expect_filled(p[0], BYTES, 0);
	expect_filled(p[2], BYTES, 2);
	p[1] = mremap(q, 2 * BYTES, 3 * BYTES, MREMAP_MAYMOVE);
	expect_grown(p[1], 2 * BYTES, 3 * BYTES, 9);
	child = fork();
	if (child == 0) {
		bool kept = same(p[1], 2 * BYTES, 9) == 2 * BYTES;

		memset(p[1], 0xee, 3 * BYTES);
		_exit(!kept);
	}
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child has other bytes");
	expect_filled(p[1], 2 * BYTES, 9);
	for (int i = 0; i < 3; i++)
		dereg(mr[i]);
	expect_filled(p[0], BYTES, 0);
	expect_filled(p[1], 2 * BYTES, 9);
	expect_filled(p[2], BYTES, 2);
	munmap(p[0], BYTES);
	munmap(p[1], 3 * BYTES);
	munmap(p[2], BYTES);
}

/* The kernel cannot be asked what is there. */
static void no_descriptor_row(void)
{
	uint8_t *p = map_private(BYTES), *other = map_private(BYTES), *q;
	struct ibv_mr *mr, *beside;
	struct rlimit all;

	row("a region grows: no descriptor is free");
	fill(p, BYTES, 10);
	fill(other, BYTES, 11);
	mr = reg_adopted(p, BYTES);
	beside = reg_adopted(other, BYTES);
	all = few_descriptors(0);
	q = mremap(p, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
	setrlimit(RLIMIT_NOFILE, &all);
	EXPECT(q == MAP_FAILED && errno == ENOMEM, "it moved, or errno %d", errno);
	q = mremap(other, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
	expect_grown(q, BYTES, 2 * BYTES, 11);
	fill(q, 2 * BYTES, 12);
	expect_filled(p, BYTES, 10);
	dereg(beside);
	dereg(mr);
	munmap(p, BYTES);
	munmap(q, 2 * BYTES);
}

static void leave_row(void)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;

	row("a region moves, and its mapping stays");
	fill(p, BYTES, 3);
	mr = reg_adopted(p, BYTES);
	q = mremap(p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	expect_grown(q, BYTES, BYTES, 3);
	EXPECT(is_zeros(p, BYTES), "it has the bytes still");
	fill(p, BYTES, 4);
	expect_filled(q, BYTES, 3);
	dereg(mr);
	expect_filled(p, BYTES, 4);
	expect_filled(q, BYTES, 3);
	munmap(p, BYTES);
	munmap(q, BYTES);
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
	mr = reg_adopted(p, BYTES);
	pthread_create(&thread, NULL, mapper, (void *)&over);
	for (int i = 0; i < 3000; i++) {
		q = mremap(p, BYTES, BYTES, leave);
		if (!EXPECT(q != MAP_FAILED, "mremap: errno %d", errno))
			break;
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

static void shrink_row(void)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;

	row("a region moves and shrinks");
	fill(p, BYTES, 5);
	mr = reg_adopted(p, BYTES);
	q = mremap(p, BYTES, BYTES / 2, MREMAP_MAYMOVE | MREMAP_FIXED, free_place(BYTES / 2));
	expect_grown(q, BYTES, BYTES / 2, 5);
	EXPECT(!pages_mapped(p) && !pages_mapped(p + BYTES - PAGE), "and is where it was");
	dereg(mr);
	expect_filled(q, BYTES / 2, 5);
	munmap(q, BYTES / 2);
}

/* --- when there is none any more --------------------------------------------------- */

static void *rest(void *over)
{
	while (!*(volatile bool *)over)
		wait_moment();
	return NULL;
}

/* What moves out beside threads is a private mapping of the segment. */
static void afterwards_row(const char *when, bool threads)
{
	uint8_t *p = without_huge(LARGE), *other = map_private(BYTES), *q;
	volatile bool over = false;
	struct ibv_mr *mr, *beside;
	pthread_t thread;

	row("memory grows that was a region: %s", when);
	fill(p, LARGE, 6);
	fill(other, BYTES, 7);
	beside = reg_adopted(other, BYTES);
	mr = reg_adopted(p, LARGE);
	if (threads)
		pthread_create(&thread, NULL, rest, (void *)&over);
	dereg(mr);
	q = mremap(p, LARGE, LARGE + BYTES, MREMAP_MAYMOVE);
	expect_grown(q, LARGE, LARGE + BYTES, 6);
	over = true;
	if (threads)
		pthread_join(thread, NULL);
	expect_filled(other, BYTES, 7);
	dereg(beside);
	munmap(q, LARGE + BYTES);
	munmap(other, BYTES);
}

/* --- what the kernel refuses -------------------------------------------------------- */

static void refused_row(const char *what, void *at, size_t had, size_t bytes, int flags, int error)
{
	row("refused: %s", what);
	EXPECT(mremap(at, had, bytes, flags, at) == MAP_FAILED && errno == error, "errno %d",
	       errno);
}

static void refused_rows(void)
{
	uint8_t *p = map_private(2 * BYTES);
	struct ibv_mr *mr;

	fill(p, BYTES, 8);
	mr = reg_adopted(p, BYTES);
	refused_row("not a page", p + 1, BYTES, 2 * BYTES, MREMAP_MAYMOVE, EINVAL);
	refused_row("no bytes", p, BYTES, 0, MREMAP_MAYMOVE, EINVAL);
	refused_row("over itself", p, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, EINVAL);
	refused_row("fixed, and may not move", p, BYTES, 2 * BYTES, MREMAP_FIXED, EINVAL);
	refused_row("no room", p, BYTES, 2 * BYTES, 0, ENOMEM);
	mprotect(p, BYTES / 2, PROT_READ);
	refused_row("two mappings", p, BYTES, 3 * BYTES, MREMAP_MAYMOVE, EFAULT);
	munmap(p + PAGE, PAGE);
	refused_row("a hole", p, BYTES, 3 * BYTES, MREMAP_MAYMOVE, EFAULT);
	dereg(mr);
	munmap(p, 2 * BYTES);
}

static void run(void)
{
	grow_row("where it is", 0);
	grow_row("anywhere", MREMAP_MAYMOVE);
	grow_row("elsewhere", MREMAP_MAYMOVE | MREMAP_FIXED);
	no_descriptor_row();
	leave_row();
	leave_beside_row();
	shrink_row();
	afterwards_row("alone", false);
	afterwards_row("beside a thread", true);
	refused_rows();
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	return adopt_test(argc, argv, run);
}
