/* SPDX-License-Identifier: MIT */
/*
 * Memory is adopted while the program has one thread, and given back while others use it in every
 * way: no store is lost, no system call fails, what is discarded is zero. Each thread has pages of
 * its own and counts what is not as it left it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"
#include "lib/userfaultfd.h"
#include "lib/wait.h"

#define WORDS	     (PAGE / sizeof(uint64_t))
#define KINDS	     11
#define OWN	     4 /* pages of each thread */
#define FORK_EACH_US 20000u

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

	if (!ends[1] && pipe(ends))
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

	usleep(FORK_EACH_US);
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
	wait_moment();
}

/* The rights of the page behind the last of them, which is not adopted, and in the same mapping. */
static void protect(struct worker *w)
{
	uint8_t *beside = w->page + OWN * PAGE;

	check(w, mprotect(beside, PAGE, PROT_READ) == 0);
	check(w, mprotect(beside, PAGE, PROT_READ | PROT_WRITE) == 0);
	*beside = 1;
	wait_moment();
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
	bool forks;
} kinds[KINDS] = {
	{"atomic increments", increment, false},
	{"increments here and there", hop, false},
	{"plain stores", store, false},
	{"read(2) and write(2)", pass, false},
	{"results of system calls", ask, false},
	{"a mutex and a condition, one side", ping, false},
	{"a mutex and a condition, the other side", pong, false},
	{"increments again", increment, false},
	{"fork()", have_child, true},
	{"madvise(MADV_DONTNEED)", discard, false},
	{"mprotect() beside it", protect, false}, /* the last one */
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
	size_t bytes; /* of the region; at least that of all threads' pages */
	bool forks;   /* with the thread that does */
	bool by_fork; /* the pages move back before a fork of the main thread's */
	int rounds;
} stresses[] = {
	{"small", KINDS *OWN *PAGE, false, false, 80},
	{"small, back for a fork", KINDS *OWN *PAGE, false, true, 60},
	{"small, with a thread that forks", KINDS *OWN *PAGE, true, false, 25},
	{"16 MiB", 8 * HUGE_BYTES, false, false, 6},
};

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
		if (kinds[i].forks && !s->forks)
			w[i].turn = NULL;
		else if (pthread_create(&w[i].thread, NULL, worker_main, &w[i]))
			DIE("pthread_create");
	}
}

/* Each of them has done something. */
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

static void give_back(struct ibv_mr *mr, bool by_fork)
{
	pid_t child = by_fork ? fork() : -1;

	if (child == 0)
		_exit(0);
	if (child > 0)
		waitpid(child, NULL, 0);
	else
		dereg(mr);
}

/* The region is all but what the last kind's thread has behind its own pages. */
static void stress_once(const struct stress *s)
{
	uint8_t *p = map_private(s->bytes + PAGE);
	struct worker w[KINDS];
	struct ibv_mr *mr;

	memset(p, 0, s->bytes);
	mr = reg_adopted(p, s->bytes);
	start(w, s, p);
	until_all_work(w);
	give_back(mr, s->by_fork);
	expect_adopted(p, false);
	expect_adopted(p + s->bytes - PAGE, false);
	let_go_on(1000);
	finish(w, p);
	if (s->by_fork)
		dereg(mr);
	munmap(p, s->bytes + PAGE);
}

static void stress_row(const struct stress *s)
{
	const int rounds = TEST_SANITIZED ? s->rounds / 5 : s->rounds;

	row("threads while memory moves back: %s", s->name);
	for (int i = 0; i < rounds; i++)
		stress_once(s);
}

/* Pages that a child has as well: it keeps what was in them. */
static void child_row(void)
{
	uint8_t *p = map_private(BYTES);
	int go[2], status = -1;
	pid_t child;
	char c = 0;

	row("pages shared with a child");
	memset(p, 7, BYTES);
	if (pipe(go))
		DIE("pipe: errno %d", errno);
	child = fork();
	if (child == 0) {
		if (read(go[0], &c, 1) != 1)
			_exit(2);
		_exit(p[0] == 7 && memcmp(p, p + 1, BYTES - 1) == 0 ? 0 : 1);
	}
	dereg(reg_adopted(p, BYTES));
	memset(p, 8, BYTES);
	dereg(reg_adopted(p, BYTES));
	EXPECT(write(go[1], &c, 1) == 1, "write");
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child's memory is another: status %d", status);
	EXPECT(p[0] == 8 && p[BYTES - 1] == 8, "the parent's memory is another");
	close(go[0]);
	close(go[1]);
	munmap(p, BYTES);
}

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(stresses); i++)
		stress_row(&stresses[i]);
	child_row();
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	return adopt_test(argc, argv, run);
}
