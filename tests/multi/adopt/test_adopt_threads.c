/* SPDX-License-Identifier: MIT */
/*
 * Memory is adopted and given back, again and again, while threads of the program use it in every
 * way: no store is lost, no system call fails, what is discarded is zero. Each thread has pages of
 * its own and counts what is not as it left it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"

#define WORDS (PAGE / sizeof(uint64_t))
#define KINDS 11
#define OWN   4 /* pages of each thread */

struct worker {
	uint8_t *page; /* OWN of them, in the region */
	_Atomic uint64_t turns;
	uint64_t wrong;
	pthread_t thread;
	void (*turn)(struct worker *w);
};

static _Atomic bool stop;

static void check(struct worker *w, bool good)
{
	w->wrong += !good;
}

/* --- what threads do, once ------------------------------------------------------- */

/* Every word of it. */
static void increment(struct worker *w)
{
	_Atomic uint64_t *word = (void *)w->page;

	for (size_t i = 0; i < OWN * WORDS; i++)
		check(w, atomic_fetch_add_explicit(&word[i], 1, memory_order_relaxed) == w->turns);
}

/* The one word in each page, so that each page is soon missed. */
static void hop(struct worker *w)
{
	for (size_t i = 0; i < OWN; i++) {
		_Atomic uint64_t *word = (void *)(w->page + i * PAGE);

		check(w, atomic_fetch_add_explicit(word, 1, memory_order_relaxed) == w->turns);
	}
}

static void store(struct worker *w)
{
	volatile uint64_t *word = (void *)w->page;

	for (size_t i = 0; i < OWN * WORDS; i += 16) {
		check(w, word[i] == w->turns);
		word[i] = w->turns + 1;
	}
}

/* Through a pipe: write(2) from a page, read(2) into others. */
static void pass(struct worker *w)
{
	static int ends[2];

	if (w->turns == 0 && pipe(ends))
		DIE("pipe: errno %d", errno);
	memset(w->page, (int)w->turns, PAGE);
	check(w, write(ends[1], w->page, PAGE) == (ssize_t)PAGE);
	memset(w->page, 0, PAGE);
	check(w, read(ends[0], w->page + PAGE, PAGE) == (ssize_t)PAGE);
	for (size_t i = 0; i < PAGE; i += 64)
		check(w, w->page[PAGE + i] == (uint8_t)w->turns && w->page[i] == 0);
}

/* The kernel stores the time, the name and a file's state. */
static void ask(struct worker *w)
{
	struct timespec *now = (void *)w->page, before = *now;

	check(w, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, now) == 0);
	check(w, now->tv_sec > before.tv_sec || now->tv_nsec > before.tv_nsec);
	check(w, syscall(SYS_getcwd, w->page + PAGE, PAGE) > 0 && w->page[PAGE] == '/');
	w->page[PAGE] = 0;
}

/* A pipe of a page as it was when fork() was called, in the child. */
static void have_child(struct worker *w)
{
	int status = -1;
	pid_t child;

	usleep(20000);
	memset(w->page, (int)w->turns, PAGE);
	child = fork();
	if (child == 0) {
		for (size_t i = 0; i < PAGE; i += 8)
			if (w->page[i] != (uint8_t)w->turns)
				_exit(1);
		memset(w->page, 0xee, PAGE);
		_exit(0);
	}
	w->page[PAGE] = 1; /* soon after */
	waitpid(child, &status, 0);
	check(w, status == 0 && w->page[0] == (uint8_t)w->turns &&
			 w->page[PAGE - 1] == (uint8_t)w->turns);
}

static void discard(struct worker *w)
{
	memset(w->page, 0xff, OWN * PAGE);
	check(w, madvise(w->page, OWN * PAGE, MADV_DONTNEED) == 0);
	for (size_t i = 0; i < OWN * PAGE; i += 64)
		check(w, w->page[i] == 0);
	usleep(100);
}

/* The rights of the page behind the last of them, which is not adopted, and in the same mapping. */
static void protect(struct worker *w)
{
	uint8_t *beside = w->page + OWN * PAGE;

	check(w, mprotect(beside, PAGE, PROT_READ) == 0);
	check(w, mprotect(beside, PAGE, PROT_READ | PROT_WRITE) == 0);
	*beside = 1;
	usleep(50);
}

/* Two threads that wait for each other in the memory that moves. */
struct table {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint64_t ball;
};

static void play(struct worker *w, uint64_t side)
{
	struct table *t = (void *)(w->page - side * OWN * PAGE);

	pthread_mutex_lock(&t->mutex);
	while (t->ball % 2 != side && !atomic_load(&stop))
		pthread_cond_wait(&t->cond, &t->mutex);
	if (t->ball % 2 == side) {
		check(w, t->ball == 2 * w->turns + side);
		t->ball++;
	}
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->mutex);
}

static void ping(struct worker *w)
{
	play(w, 0);
}

static void pong(struct worker *w)
{
	play(w, 1);
}

/* --- together -------------------------------------------------------------------- */

static const struct kind {
	const char *name;
	void (*turn)(struct worker *w);
	bool tears; /* a huge page, by what it does */
	bool forks;
} kinds[KINDS] = {
	{"atomic increments", increment, false, false},
	{"increments here and there", hop, false, false},
	{"plain stores", store, false, false},
	{"read(2) and write(2)", pass, false, false},
	{"results of system calls", ask, false, false},
	{"a mutex and a condition, one side", ping, false, false},
	{"a mutex and a condition, the other side", pong, false, false},
	{"increments again", increment, false, false},
	{"fork()", have_child, true, true},
	{"madvise(MADV_DONTNEED)", discard, true, false},
	{"mprotect() beside it", protect, true, false}, /* the last one */
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop)) {
		w->turn(w);
		w->turns++;
	}
	return NULL;
}

static const struct stress {
	const char *name;
	size_t bytes;	   /* of the region; at least that of all threads' pages */
	bool huge;	   /* the program's memory has huge pages before */
	bool tears, forks; /* with the threads that do */
	int times;	   /* that it is adopted, if that can be had in time */
} stresses[] = {
	{"small, without fork", KINDS *OWN *PAGE, false, true, false, 300},
	{"small, with fork", KINDS *OWN *PAGE, false, true, true, 150},
	{"16 MiB, of small pages", 8 * HUGE_BYTES, false, false, false, 15},
	{"4 MiB, of huge pages", 2 * HUGE_BYTES, true, false, false, 40},
};

static uint8_t *map_units(size_t bytes, bool huge)
{
	uint8_t *room = mmap(NULL, bytes + 2 * HUGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	room = (uint8_t *)(((uintptr_t)room + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	if (madvise(room, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		DIE("madvise: errno %d", errno);
	memset(room, 0, bytes);
	return room;
}

/* Of which the region is all but what the last kind's thread has behind its own. */
static bool adopt_once(uint8_t *p, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(a.node->pd, p, bytes, PROBE_ALL);
	bool adopted;

	if (!mr)
		DIE("ibv_reg_mr: errno %d", errno);
	adopted = !pages_private(p + bytes - PAGE);
	sched_yield();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	return adopted;
}

static void start(struct worker *w, const struct stress *s, uint8_t *p)
{
	struct table *t = (void *)(p + 5 * OWN * PAGE);

	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->cond, NULL);
	atomic_store(&stop, false);
	for (size_t i = 0; i < KINDS; i++) {
		/* from the end, so that the last one's is beside what is not adopted */
		uint8_t *page = p + (i < KINDS - 1 ? i * OWN * PAGE : s->bytes - OWN * PAGE);

		w[i] = (struct worker){.page = page, .turn = kinds[i].turn};
		if ((kinds[i].tears && !s->tears) || (kinds[i].forks && !s->forks))
			w[i].turn = NULL;
		else if (pthread_create(&w[i].thread, NULL, worker_main, &w[i]))
			DIE("pthread_create");
	}
}

/* Each of them has done something: not even the first adoption is alone. */
static void until_all_work(const struct worker *w)
{
	for (size_t i = 0; i < KINDS; i++)
		while (w[i].turn && atomic_load(&w[i].turns) == 0)
			sched_yield();
}

static void finish(struct worker *w, uint8_t *p)
{
	struct table *t = (void *)(p + 5 * OWN * PAGE);

	atomic_store(&stop, true);
	for (size_t i = 0; i < KINDS; i++) {
		if (!w[i].turn)
			continue;
		while (w[i].turn == ping || w[i].turn == pong) {
			pthread_mutex_lock(&t->mutex);
			pthread_cond_broadcast(&t->cond);
			pthread_mutex_unlock(&t->mutex);
			if (pthread_tryjoin_np(w[i].thread, NULL) == 0)
				break;
			sched_yield();
		}
		if (w[i].turn != ping && w[i].turn != pong)
			pthread_join(w[i].thread, NULL);
		EXPECT(w[i].wrong == 0, "%s: %lu wrong in %lu turns", kinds[i].name,
		       (unsigned long)w[i].wrong, (unsigned long)w[i].turns);
		EXPECT(w[i].turns > 0, "%s: never", kinds[i].name);
	}
}

static void stress_row(const struct stress *s)
{
	uint8_t *p = map_units(s->bytes + PAGE, s->huge);
	struct worker w[KINDS];
	const int times = TEST_SANITIZED ? s->times / 5 : s->times;
	uint64_t until;
	int adopted = 0;

	row("threads while memory moves: %s", s->name);
	if (s->huge && pages_huge(p, s->bytes) < s->bytes / HUGE_BYTES) {
		munmap(p, s->bytes + 2 * HUGE_BYTES);
		return;
	}
	start(w, s, p);
	until_all_work(w);
	until = now_ms() + PATIENCE;
	while (adopted < times && now_ms() < until)
		adopted += adopt_once(p, s->bytes);
	finish(w, p);
	EXPECT(adopted > 0, "never adopted");
	if (s->huge)
		EXPECT(pages_huge(p, s->bytes) == s->bytes / HUGE_BYTES, "%zu huge pages are left",
		       pages_huge(p, s->bytes));
	munmap(p, s->bytes + PAGE);
}

/* --- what is left alone ---------------------------------------------------------- */

static _Atomic int waiting;

static void *wait_for_stop(void *arg)
{
	(void)arg;
	atomic_store(&waiting, 1);
	while (!atomic_load(&stop))
		usleep(1000);
	return NULL;
}

/* A thread whose end the kernel tells where the pages are. */
static void stack_row(void)
{
	const size_t bytes = 512 * 1024;
	uint8_t *p = map_units(HUGE_BYTES, false);
	pthread_attr_t attr;
	pthread_t thread;
	struct ibv_mr *mr;

	row("left alone: a thread's stack");
	atomic_store(&stop, false);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, p, bytes) ||
	    pthread_create(&thread, &attr, wait_for_stop, NULL))
		DIE("pthread_create");
	while (!atomic_load(&waiting))
		usleep(1000);
	mr = ibv_reg_mr(a.node->pd, p, bytes, PROBE_ALL);
	EXPECT(mr && pages_private(p), "adopted");
	ibv_dereg_mr(mr);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	munmap(p, HUGE_BYTES);
}

/* A thread that was joined may be seen for a moment. */
static bool adopt_at_last(uint8_t *p)
{
	uint64_t until = now_ms() + PATIENCE;

	while (!adopt_once(p, HUGE_BYTES))
		if (now_ms() > until)
			return false;
	return true;
}

static void unbuffered_row(void)
{
	char path[] = "/tmp/anyverbs-test-XXXXXX";
	uint8_t *p = map_units(HUGE_BYTES, false);
	int made = mkstemp(path), fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	pthread_t thread;

	unlink(path);
	if (fd < 0) { /* a file system that has none */
		close(made);
		return;
	}
	row("left alone: a file that is read past the cache");
	atomic_store(&stop, false);
	if (pthread_create(&thread, NULL, wait_for_stop, NULL))
		DIE("pthread_create");
	EXPECT(!adopt_once(p, HUGE_BYTES), "adopted");
	close(fd);
	EXPECT(adopt_at_last(p), "left alone without the file");
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	close(made);
	munmap(p, HUGE_BYTES);
}

/* A page shared with a child that lives is not moved from under it. */
static void child_row(void)
{
	uint8_t *p = map_units(HUGE_BYTES, false);
	int go[2], status = -1;
	pthread_t thread;
	pid_t child;
	char c = 0;

	row("pages shared with a child");
	memset(p, 7, HUGE_BYTES);
	atomic_store(&stop, false);
	if (pipe(go) || pthread_create(&thread, NULL, wait_for_stop, NULL))
		DIE("pthread_create");
	child = fork();
	if (child == 0) {
		if (read(go[0], &c, 1) != 1)
			_exit(2);
		for (size_t i = 0; i < HUGE_BYTES; i++)
			if (p[i] != 7)
				_exit(1);
		_exit(0);
	}
	(void)adopt_once(p, HUGE_BYTES);
	memset(p, 8, HUGE_BYTES);
	(void)adopt_once(p, HUGE_BYTES);
	EXPECT(write(go[1], &c, 1) == 1, "write");
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child's memory is another: status %d", status);
	EXPECT(p[0] == 8 && p[HUGE_BYTES - 1] == 8, "the parent's memory is another");
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	close(go[0]);
	close(go[1]);
	munmap(p, HUGE_BYTES);
}

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(stresses); i++)
		stress_row(&stresses[i]);
	if (!TEST_SANITIZED) /* whose threads have stacks of their own */
		stack_row();
	unbuffered_row();
	child_row();
}

int main(int argc, char **argv)
{
	if (!can_hold()) {
		printf("SKIPPED: no userfaultfd for the kernel's faults\n");
		return 77;
	}
	return adopt_test(argc, argv, run);
}
