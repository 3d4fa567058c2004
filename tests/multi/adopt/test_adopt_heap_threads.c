/* SPDX-License-Identifier: MIT */
/*
 * The shared heap with threads: some allocate and give back, some store into memory that fork()
 * makes private, some discard. No store is lost, nobody is given what somebody else has, and what
 * is discarded is zeros.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"
#include "lib/wait.h"

#define THREADS 6
#define ROUNDS	25
#define WORDS	(BYTES / sizeof(uint64_t))

static struct worker {
	pthread_t thread;
	void (*turn)(struct worker *w);
	uint8_t *memory; /* BYTES of its own */
	unsigned int number, seed;
	uint64_t wrong;
	_Atomic uint64_t turns;
} workers[THREADS];

static _Atomic bool stop;

static void increment(struct worker *w)
{
	_Atomic uint64_t *word = (void *)w->memory;

	for (size_t i = 0; i < WORDS; i++)
		w->wrong +=
			atomic_fetch_add_explicit(&word[i], 1, memory_order_relaxed) != w->turns;
}

static void store(struct worker *w)
{
	volatile uint64_t *word = (void *)w->memory;

	for (size_t i = 0; i < WORDS; i += 16) {
		w->wrong += word[i] != w->turns;
		word[i] = w->turns + 1;
	}
}

static void discard(struct worker *w)
{
	memset(w->memory, 0xff, BYTES);
	w->wrong += madvise(w->memory, BYTES, MADV_DONTNEED) != 0;
	for (size_t i = 0; i < BYTES; i += 64)
		w->wrong += w->memory[i] != 0;
}

/* Blocks of all sizes that are its own from end to end. */
static void allocate(struct worker *w)
{
	size_t bytes = (size_t)rand_r(&w->seed) % 300000 + 1, more = bytes / 2 * 3;
	uint8_t *p = rand_r(&w->seed) % 4 ? malloc(bytes) : calloc(bytes, 1), *q;

	memset(p, (int)w->number, bytes);
	q = map_private(PAGE + bytes);
	memset(q, (int)w->number, bytes);
	p = realloc(p, more);
	w->wrong += p[0] != w->number || memcmp(p, p + 1, bytes - 1) != 0;
	w->wrong += q[0] != w->number || memcmp(q, q + 1, bytes - 1) != 0;
	free(p);
	munmap(q, PAGE + bytes);
}

/* A block moves page by page: every other page has memory. */
static void move(struct worker *w)
{
	const size_t bytes = 16 * BYTES;
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*q;

	for (size_t i = 0; i < bytes; i += 2 * PAGE)
		p[i] = (uint8_t)w->number;
	q = mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	for (size_t i = 0; i < bytes; i += PAGE)
		w->wrong += q[i] != (i / PAGE % 2 ? 0 : w->number);
	munmap(p, bytes);
	munmap(q, bytes);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop)) {
		w->turn(w);
		w->turns++;
	}
	return NULL;
}

typedef void turn_fn(struct worker *w);

static void start(turn_fn *const turns[THREADS])
{
	atomic_store(&stop, false);
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.turn = turns[i],
					     .memory = map_private(BYTES),
					     .number = i + 1,
					     .seed = i + 1};
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			DIE("pthread_create");
	}
	for (unsigned int i = 0; i < THREADS; i++)
		while (atomic_load(&workers[i].turns) == 0)
			sched_yield();
}

static void finish(void)
{
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT(workers[i].wrong == 0, "thread %u: %lu wrong in %lu turns", i,
		       (unsigned long)workers[i].wrong, (unsigned long)workers[i].turns);
		munmap(workers[i].memory, BYTES);
	}
}

/* The child has what there was at one moment: what no thread writes, as it was. */
static void fork_once(uint8_t *still)
{
	int status = -1, go[2];
	char c = 0;
	pid_t child;

	NEED(pipe(go) == 0);
	fill(still, BYTES, 5);
	child = fork();
	if (child == 0)
		_exit(read(go[0], &c, 1) == 1 && same(still, BYTES, 5) == BYTES ? 0 : 1);
	fill(still, BYTES, 6);
	NEED(write(go[1], &c, 1) == 1);
	close(go[0]);
	close(go[1]);
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child's memory is another: status %d", status);
	expect_filled(still, BYTES, 6);
}

static turn_fn *const all[THREADS] = {increment, store, discard, allocate, allocate, allocate};
static turn_fn *const moves[THREADS] = {move, move, move, move, move, move};

/* Memory of the threads is shared until the fork, of each round anew. */
static void fork_row(bool registered)
{
	row("fork() while threads use the heap%s", registered ? ", and regions are on it" : "");
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *still = map_private(BYTES);
		struct ibv_mr *mr[THREADS];

		start(all);
		for (unsigned int n = 0; registered && n < THREADS; n++)
			mr[n] = reg(workers[n].memory, BYTES);
		EXPECT(!pages_private(workers[0].memory), "private before");
		fork_once(still);
		EXPECT(pages_private(workers[0].memory), "shared afterwards");
		let_go_on(1000);
		finish();
		for (unsigned int n = 0; registered && n < THREADS; n++)
			dereg(mr[n]);
		munmap(still, BYTES);
	}
}

/* What is under way from block to block when fork() makes both private arrives. */
static void move_row(void)
{
	row("fork() while threads move blocks");
	start(moves);
	for (int i = 0; i < 4 * ROUNDS; i++) {
		uint8_t *still = map_private(BYTES);

		fork_once(still);
		munmap(still, BYTES);
	}
	finish();
}

/* A peer writes while threads of the program come and go, and nothing moves. */
static void reached_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	row("regions are reached while threads use the heap");
	start(all);
	for (int i = 0; i < 200; i++)
		expect_reached(p, mr);
	finish();
	dereg(mr);
	munmap(p, BYTES);
}

static void run(void)
{
	fork_row(false);
	fork_row(true);
	move_row();
	reached_row();
}

int main(int argc, char **argv)
{
	return adopt_test(argc, argv, run);
}
