/* SPDX-License-Identifier: MIT */
/*
 * Adopted memory: peers reach it, and the program notices nothing of it. What is registered, forked,
 * discarded, moved, unmapped, written by other threads while it moves; and what is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/pages.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define PAGE	 4096ul
#define PAGES	 16ul
#define BYTES	 (PAGES * PAGE)
#define PATIENCE 10000u

static struct side a, b; /* the regions are a's, in this process */

static uint8_t *map(size_t bytes, int flags)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	return p;
}

static uint8_t *map_private(size_t bytes)
{
	return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
}

static struct ibv_mr *reg(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(a.node->pd, at, bytes, PROBE_ALL);

	if (!mr)
		DIE("ibv_reg_mr: errno %d", errno);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

static void expect_adopted(const uint8_t *p, bool adopted)
{
	EXPECT(pages_private(p) == !adopted, "%s", adopted ? "left alone" : "adopted");
}

static void fill(uint8_t *p, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(seed + i * 7 + i / PAGE);
}

static size_t same(const uint8_t *p, size_t bytes, uint8_t seed)
{
	size_t i = 0;

	while (i < bytes && p[i] == (uint8_t)(seed + i * 7 + i / PAGE))
		i++;
	return i;
}

static void expect_filled(const uint8_t *p, size_t bytes, uint8_t seed)
{
	EXPECT(same(p, bytes, seed) == bytes, "byte %zu of %zu is another", same(p, bytes, seed), bytes);
}

/* Every kind of access by the other process, and what it leaves. */
static void expect_reached(uint8_t *p, const struct ibv_mr *mr)
{
	uint64_t addr = (uintptr_t)p, word = 0;
	uint8_t *at = (uint8_t *)((addr + 15) & ~7ul);

	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, addr + 100, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, addr + 100, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 2 * PAGE, PROBE_SEED, 0) < 0, "READ brings other bytes");
	memcpy(at, &word, sizeof(word));
	EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)at, mr->rkey, 8, IBV_WC_SUCCESS);
	memcpy(&word, at, sizeof(word));
	EXPECT(word == 1, "%lu after FETCH_AND_ADD", (unsigned long)word);
}

/* --- moving there and back ------------------------------------------------------------------------------ */

struct range {
	const char *name;
	size_t from, to;	     /* of BYTES */
	size_t first_page, end_page; /* whole pages in it; equal: none */
};

static const struct range ranges[] = {
	{"all", 0, BYTES, 0, PAGES},
	{"one page", 3 * PAGE, 4 * PAGE, 3, 4},
	{"beginning within a page", 100, BYTES, 1, PAGES},
	{"ending within a page", 0, BYTES - 1, 0, PAGES - 1},
	{"beginning and ending within pages", PAGE - 1, 5 * PAGE + 1, 1, 5},
	{"two parts of pages", PAGE - 8, PAGE + 8, 0, 0},
	{"less than a page", 16, 24, 0, 0},
	{"a page and no whole one", 8, PAGE + 7, 0, 0},
};

static void range_row(const struct range *r)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("whole pages: %s", r->name);
	fill(p, BYTES, 1);
	mr = reg(p + r->from, r->to - r->from);
	for (size_t i = 0; i < PAGES; i++)
		EXPECT(pages_private(p + i * PAGE) == (i < r->first_page || i >= r->end_page), "page %zu", i);
	expect_filled(p, BYTES, 1);
	if (r->to - r->from >= 4 * PAGE) {
		expect_reached(p + r->from, mr);
		fill(p, BYTES, 2);
	} else {
		fill(p, BYTES, 2);
	}
	dereg(mr);
	for (size_t i = 0; i < PAGES; i++)
		EXPECT(pages_private(p + i * PAGE), "page %zu, afterwards", i);
	expect_filled(p, BYTES, 2);
	munmap(p, BYTES);
}

static void absent_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	bool zero = true;

	row("pages that are not there yet");
	p[5 * PAGE] = 5;
	mr = reg(p, BYTES);
	expect_adopted(p, true);
	for (size_t i = 0; i < BYTES; i++)
		zero = zero && p[i] == (i == 5 * PAGE ? 5 : 0);
	EXPECT(zero, "not zeros");
	dereg(mr);
	EXPECT(p[5 * PAGE] == 5 && p[6 * PAGE] == 0, "contents");
	munmap(p, BYTES);
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
	expect_adopted(p + PAGE, true);
	expect_reached(p + PAGE, part);
	more = reg(p, BYTES);
	expect_reached(p, more);
	dereg(part);
	fill(p, BYTES, 4);
	dereg(more);
	expect_adopted(p, false);
	expect_filled(p, BYTES, 4);
	munmap(p, BYTES);
}

static void rereg_row(void)
{
	uint8_t *p = map_private(BYTES), *q = map_private(BYTES);
	struct ibv_mr *mr;

	row("ibv_rereg_mr()");
	fill(p, BYTES, 5);
	fill(q, BYTES, 6);
	mr = reg(p, BYTES);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, BYTES, 0) == 0, "errno %d", errno);
	expect_adopted(p, false);
	expect_adopted(q, true);
	expect_filled(p, BYTES, 5);
	expect_filled(q, BYTES, 6);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ) == 0,
	       "errno %d", errno);
	expect_adopted(q, true);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, PROBE_ALL) == 0, "errno %d",
	       errno);
	expect_reached(q, mr);
	dereg(mr);
	expect_adopted(q, false);
	munmap(p, BYTES);
	munmap(q, BYTES);
}

static void close_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct node other;
	struct ibv_mr *mr;

	row("a context that is closed with a region");
	memset(&other, 0, sizeof(other));
	other.ctx = node_open_device();
	other.pd = ibv_alloc_pd(other.ctx);
	fill(p, BYTES, 7);
	mr = ibv_reg_mr(other.pd, p, BYTES, PROBE_ALL);
	EXPECT(mr, "ibv_reg_mr");
	expect_adopted(p, true);
	ibv_close_device(other.ctx);
	expect_adopted(p, false);
	expect_filled(p, BYTES, 7);
	munmap(p, BYTES);
}

/* May this process have its threads wait in the kernel's faults, too? */
static bool can_hold(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* --- huge pages ----------------------------------------------------------------------------------------- */

#define UNITS 4ul /* huge pages that the room for a row has */

/* Room that begins where a huge page may. */
static uint8_t *map_units(void)
{
	uint8_t *room = map_private((UNITS + 1) * HUGE_BYTES);

	return (uint8_t *)(((uintptr_t)room + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
}

static void unmap_units(uint8_t *p)
{
	munmap(p, UNITS * HUGE_BYTES);
}

static const struct huge {
	const char *name;
	bool had;	   /* the program's memory has huge pages before */
	size_t from, to;   /* of UNITS * HUGE_BYTES: the region */
	size_t first, end; /* units that the adopted pages fill; what is beside them stays as it is */
	bool beside;	   /* pages of the region outside of those units are adopted, too */
} huges[] = {
	{"whole ones, of small pages", false, 0, UNITS *HUGE_BYTES, 0, UNITS, false},
	{"beginning and ending elsewhere, of small pages", false, 3 * PAGE, UNITS *HUGE_BYTES - PAGE, 1,
	 UNITS - 1, true},
	{"less than one, of small pages", false, PAGE, HUGE_BYTES, 0, 0, true},
	{"whole ones, of huge pages", true, HUGE_BYTES, 3 * HUGE_BYTES, 1, 3, false},
	{"a part of the first, of huge pages", true, HUGE_BYTES - PAGE, 3 * HUGE_BYTES, 1, 3, false},
	{"a part of the last, of huge pages", true, HUGE_BYTES, 3 * HUGE_BYTES + 100, 1, 3, false},
	{"parts on both sides, of huge pages", true, 16, UNITS *HUGE_BYTES - 1, 1, UNITS - 1, false},
};

/* As many units as have one, the program has one of each. */
static void expect_huge(const uint8_t *p, const char *when)
{
	EXPECT(pages_huge(p, UNITS * HUGE_BYTES) == UNITS, "%zu of %lu units are huge pages, %s",
	       pages_huge(p, UNITS * HUGE_BYTES), UNITS, when);
}

static void huge_units_row(const struct huge *h, bool by_fork)
{
	uint8_t *p = map_units(), *at = p + h->from;
	struct ibv_mr *mr;

	row("huge pages: %s%s", h->name, by_fork ? ", and a fork" : "");
	if (madvise(p, UNITS * HUGE_BYTES, h->had ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		DIE("madvise: errno %d", errno);
	fill(p, UNITS * HUGE_BYTES, 21);
	if (h->had)
		expect_huge(p, "before");
	mr = reg(at, h->to - h->from);
	for (size_t i = 0; i < UNITS; i++)
		expect_adopted(p + i * HUGE_BYTES + PAGE * (HUGE_BYTES / PAGE / 2),
			       i >= h->first && i < h->end ? true : h->beside && h->to > i * HUGE_BYTES);
	expect_filled(p, UNITS * HUGE_BYTES, 21);
	EXPECT(pages_huge(p + h->first * HUGE_BYTES, (h->end - h->first) * HUGE_BYTES) == h->end - h->first,
	       "adopted pages are small");
	if (h->had)
		expect_huge(p, "adopted");
	expect_reached(p + ((h->from + 63) & ~63ul), mr);
	expect_reached(p + h->first * HUGE_BYTES + h->from % HUGE_BYTES, mr);
	if (by_fork) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	fill(p, UNITS * HUGE_BYTES, 22);
	dereg(mr);
	expect_adopted(p + h->first * HUGE_BYTES, false);
	expect_filled(p, UNITS * HUGE_BYTES, 22);
	if (h->had)
		expect_huge(p, "afterwards");
	EXPECT(madvise(p, UNITS * HUGE_BYTES, MADV_DONTNEED) == 0 && p[HUGE_BYTES] == 0,
	       "discarding afterwards");
	unmap_units(p);
}

static void huge_rows(void)
{
	if (!pages_huge_possible())
		return;
	for (size_t i = 0; i < COUNT_OF(huges); i++) {
		if (huges[i].had && !can_hold())
			continue; /* left alone */
		huge_units_row(&huges[i], false);
		huge_units_row(&huges[i], true);
	}
}

/* --- what the program does with it ---------------------------------------------------------------------- */

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
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child sees what its parent wrote");
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
	if (advice == MADV_DONTNEED) {
		EXPECT(ret == 0, "errno %d", errno);
		EXPECT(by_number ? zero_within(p, BYTES) : p[0] == 0 && p[2 * PAGE] == 0 && p[BYTES - 1] == 0,
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

static void unmap_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("unmapping a part");
	fill(p, BYTES, 15);
	mr = reg(p, BYTES);
	munmap(p + 4 * PAGE, 2 * PAGE);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p + 4 * PAGE, mr->rkey, PAGE,
		     IBV_WC_REM_ACCESS_ERR);
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

/* --- threads -------------------------------------------------------------------------------------------- */

static struct {
	_Atomic uint64_t *word;
	_Atomic bool stop;
	_Atomic uint64_t turns;
} writer;

static void *write_all_the_time(void *arg)
{
	while (!atomic_load(&writer.stop)) {
		for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
			atomic_fetch_add_explicit(&writer.word[i], 1, memory_order_relaxed);
		atomic_fetch_add(&writer.turns, 1);
	}
	return NULL;
}

static void await_turn(void)
{
	uint64_t turns = atomic_load(&writer.turns);

	while (atomic_load(&writer.turns) < turns + 2)
		sched_yield();
}

static void expect_all_counted(const char *when)
{
	uint64_t turns, wrong = 0;

	atomic_store(&writer.stop, true);
	turns = atomic_load(&writer.turns);
	for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
		wrong += atomic_load(&writer.word[i]) != turns;
	EXPECT(wrong == 0, "%lu words have lost a store, %s", (unsigned long)wrong, when);
}

static void start_writer(pthread_t *thread, uint8_t *p)
{
	writer.word = (void *)p;
	atomic_store(&writer.stop, false);
	atomic_store(&writer.turns, 0);
	if (pthread_create(thread, NULL, write_all_the_time, NULL))
		DIE("pthread_create");
	await_turn();
}

static void thread_before_row(void)
{
	uint8_t *p = map_private(BYTES);
	pthread_t thread;

	row("a process with two threads: adopted if the other one can wait");
	start_writer(&thread, p);
	for (int i = 0; i < 20; i++) {
		struct ibv_mr *mr = reg(p, BYTES);

		expect_adopted(p, can_hold());
		dereg(mr);
		expect_adopted(p, false);
	}
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	expect_all_counted("registered 20 times");
	munmap(p, BYTES);
}

static void wait_until_single(void)
{
	/* A thread that was joined may be seen for a moment. */
	for (int i = 0; i < 1000; i++) {
		uint8_t *p = map_private(PAGE);
		struct ibv_mr *mr = reg(p, PAGE);
		bool adopted = !pages_private(p);

		dereg(mr);
		munmap(p, PAGE);
		if (adopted)
			return;
		usleep(1000);
	}
	EXPECT(false, "nothing is adopted any more");
}

/* Threads that came after the registration go on while the pages move back. */
static void thread_after_row(bool by_fork)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	pthread_t thread;

	row("a thread writes while the pages move back%s", by_fork ? " for a fork" : "");
	wait_until_single();
	mr = reg(p, BYTES);
	expect_adopted(p, true);
	start_writer(&thread, p);
	if (by_fork) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	} else {
		dereg(mr);
	}
	expect_adopted(p, false);
	await_turn();
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	expect_all_counted("moved back");
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[0] == 0 && p[BYTES - 1] == 0,
	       "discarding afterwards");
	if (by_fork)
		dereg(mr);
	munmap(p, BYTES);
	wait_until_single();
}

/* --- peers --------------------------------------------------------------------------------------------- */

/* A request of 8 bytes from or to @at, and its end. */
static bool transfer(struct node *n, enum ibv_wr_opcode opcode, void *at, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)at, 8, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(n->qp[0], &wr, &bad))
		return false;
	while (ibv_poll_cq(n->cq[0], 1, &wc) == 0)
		;
	return wc.status == IBV_WC_SUCCESS;
}

/* READ each page's number, which was written a turn ago, and WRITE the next. Return: how often it was the one
 */
static uint64_t count_up(struct node *n, const struct side_job *job)
{
	uint64_t *number = (void *)n->arena, good = 0;

	for (uint64_t i = 1; i <= job->arg[2]; i++) {
		for (size_t page = 0; page < PAGES - 1; page++) {
			uint64_t at = job->arg[0] + page * PAGE;

			number[0] = i;
			number[8] = 0;
			if (!transfer(n, IBV_WR_RDMA_READ, &number[8], at, (uint32_t)job->arg[1]) ||
			    !transfer(n, IBV_WR_RDMA_WRITE, &number[0], at, (uint32_t)job->arg[1]))
				return good;
			good += number[8] == i - 1;
		}
	}
	return good;
}

/*
 * The other process writes through one region, another region on the same memory comes and goes, and with it
 * the pages: no store is lost.
 */
static void peer_row(void)
{
	const uint64_t turns = TEST_SANITIZED ? 500 : 5000;
	const size_t bytes = 512 * PAGE; /* that many, so that moving takes long */
	uint8_t *p = map_private(bytes), *locked = map_private(PAGE);
	struct side_job job = {.arg = {(uintptr_t)p, 0, turns}};
	unsigned int moved = 0;
	struct ibv_mr *steady;
	uint64_t done;

	row("pages move while another process writes there");
	wait_until_single();
	if (syscall(SYS_mlock, locked, PAGE)) /* so this one is left alone */
		return;
	steady = reg(p, bytes);
	munmap(locked, PAGE);
	expect_adopted(p, false);
	job.arg[1] = steady->rkey;
	side_begin(&b, &job);
	for (int i = 0; i < 50; i++) {
		struct ibv_mr *mr = reg(p, bytes - PAGE);

		moved += !pages_private(p);
		dereg(mr);
	}
	done = side_end(&b);
	EXPECT(moved == 50, "moved %u times", moved);
	EXPECT(done == turns * (PAGES - 1), "%lu writes were there", (unsigned long)done);
	dereg(steady);
	munmap(p, bytes);
}

/* --- what is left alone --------------------------------------------------------------------------------- */

static void alone_row(const char *name, uint8_t *p, size_t bytes)
{
	bool private = pages_private(p);
	struct ibv_mr *mr;

	row("left alone: %s", name);
	mr = reg(p, bytes);
	EXPECT(pages_private(p) == private, "adopted");
	expect_reached(p, mr);
	dereg(mr);
}

static void file_row(void)
{
	char path[] = "/tmp/anyverbs-test-XXXXXX";
	int fd = mkstemp(path);
	uint8_t *p;

	if (fd < 0 || unlink(path) || ftruncate(fd, (off_t)BYTES))
		DIE("no file");
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	alone_row("a private mapping of a file", p, BYTES);
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[0] == 0, "it is a mapping of the file still");
	munmap(p, BYTES);
	close(fd);
}

static void stack_row(void)
{
	uint8_t room[8 * PAGE];

	alone_row("the stack", (uint8_t *)(((uintptr_t)room + PAGE - 1) & ~(PAGE - 1)), 6 * PAGE);
}

/* Half of one is enough to lose it. */
static void huge_row(void)
{
	uint8_t *room = map_private(2 * HUGE_BYTES);
	uint8_t *p = (uint8_t *)(((uintptr_t)room + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));

	if (madvise(p, HUGE_BYTES, MADV_HUGEPAGE) == 0)
		memset(p, 1, HUGE_BYTES);
	alone_row("a huge page, if there is one", p, HUGE_BYTES / 2);
	munmap(room, 2 * HUGE_BYTES);
}

static void locked_row(void)
{
	uint8_t *p = map_private(BYTES), *locked = map_private(PAGE);

	if (syscall(SYS_mlock, locked, PAGE)) /* by number: a sanitizer has its own, which does nothing */
		return;
	alone_row("locked memory in the process", p, BYTES);
	munmap(locked, PAGE);
	munmap(p, BYTES);
}

static void refused_memory_rows(void)
{
	uint8_t *p = map(BYTES, MAP_SHARED | MAP_ANONYMOUS);

	alone_row("a shared mapping", p, BYTES);
	munmap(p, BYTES);
	file_row();
	if (!TEST_SANITIZED) /* whose variables may be elsewhere */
		stack_row();
	huge_row();
	locked_row();
}

/* --- all of it -------------------------------------------------------------------------------------------
 */

static void leak_row(void)
{
	uint8_t *p = map_private(BYTES);
	size_t before = 0;

	row("again and again");
	for (int i = 0; i < 2000; i++) {
		dereg(reg(p, BYTES));
		if (i == 100)
			before = sandbox_bytes();
	}
	EXPECT(sandbox_bytes() <= before + 16 * PAGE, "the context's file grew from %zu to %zu bytes", before,
	       sandbox_bytes());
	munmap(p, BYTES);
}

/* What a killed reader of the memory leaves behind must not stop its owner. */
static void kill_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct side_job job = {.arg = {(uintptr_t)p, 0, 1u << 30}};
	struct ibv_mr *mr;

	row("the peer is killed in the middle");
	mr = reg(p, BYTES);
	job.arg[1] = mr->rkey;
	side_begin(&b, &job);
	while (atomic_load((_Atomic uint64_t *)(void *)p) < 100)
		sched_yield();
	kill(b.pid, SIGKILL);
	dereg(mr);
	expect_adopted(p, false);
	munmap(p, BYTES);
}

int main(int argc, char **argv)
{
	side_work = count_up;
	side_agent_main(argc, argv);
	time_limit(200);
	sandbox_enter();
	setenv("ANYVERBS_ADOPT", "always", 1);
	side_start(&b);
	side_open(&a, NULL);
	probe_open(&b, &a, 0);
#if defined(__SANITIZE_THREAD__)
	printf("SKIPPED: ThreadSanitizer has a thread of its own\n");
	return 77;
#endif
	for (size_t i = 0; i < COUNT_OF(ranges); i++)
		range_row(&ranges[i]);
	absent_row();
	overlap_row();
	rereg_row();
	if (!TEST_SANITIZED) /* what a program leaks so is its own */
		close_row();
	huge_rows();
	fork_row(false);
	fork_row(true);
	discard_row(MADV_DONTNEED, false);
	discard_row(MADV_DONTNEED, true);
	discard_row(MADV_FREE, false);
	unmap_row();
	move_row();
	protect_row();
	refused_memory_rows();
	thread_before_row();
	thread_after_row(false);
	thread_after_row(true);
	peer_row();
	leak_row();
	kill_row();
	return summary();
}
