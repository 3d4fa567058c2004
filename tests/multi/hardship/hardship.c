/* SPDX-License-Identifier: MIT */
/*
 * What bystanders notice when processes beside them die, stop, are cancelled and fork: nothing.
 *
 *     hardship [--seed N] [--kills N] [--stops N] [--cancels N] [--forks N]
 *              [--stop-ms N]
 *
 * Each case is run so many times; a seed chooses the instants. A stop lasts up to 50 ms: whoever
 * waited for the stopped process would take no longer, so only stops of a few hundred
 * (--stop-ms 400) show whether anybody does. Beside each, two pairs of
 * processes (bystander.h) never touch the victims. One moves data, and looks at each byte; one
 * opens, registers, connects and closes. None of their steps may take more than 100 ms (on the
 * wire: 400 ms) because of us: a longer one is a failure if a thread beside it that only sleeps and
 * wakes was late by less than 50 ms all the while (stopwatch.h).
 *
 * When the victims are gone and one more process has joined and left, the shared folder has no
 * context or socket of the dead, its directory no row of them, and there are no more bytes than
 * before. What the machine's shared memory holds is
 * shown only, since others use it, too.
 *
 * ctest runs each case with small numbers, "make hardship" with thousands.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hardship/bystander.h"
#include "hardship/cancelled.h"
#include "hardship/forked.h"
#include "hardship/life.h"
#include "hardship/remains.h"
#include "hardship/victims.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "spoiled/gear.h"

#define SKIPPED	   77
#define LIMIT_MORE 60u /* seconds, beside what each time of a case may take */

static uint64_t seed;

static void fork_case(uint64_t count, uint64_t unused)
{
	(void)unused;
	forked_run(count);
}

static struct hardship {
	const char *option;
	void (*run)(uint64_t count, uint64_t seed);
	uint64_t count;
} cases[] = {
	{"--kills", victims_kill, 0},
	{"--stops", victims_stop, 0},
	{"--cancels", cancelled_run, 0},
	{"--forks", fork_case, 0},
};

static void arguments(int argc, char **argv)
{
	seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 0), *to = NULL;

		for (size_t k = 0; k < COUNT_OF(cases); k++)
			if (!strcmp(argv[i], cases[k].option))
				to = &cases[k].count;
		if (!strcmp(argv[i], "--seed"))
			to = &seed;
		if (!strcmp(argv[i], "--stop-ms"))
			to = &stop_max_ms;
		if (!to)
			DIE("%s?", argv[i]);
		*to = value;
	}
}

/* A process that joins, connects and leaves clears up behind the dead. */
static void join_and_leave(void)
{
	struct gear g;

	gear_open(&g, seed);
	EXPECT(gear_connect(&g, &g.info) == 0, "connect");
	gear_close(&g);
}

static void expect_nothing_left(const struct remains *before)
{
	struct remains now;

	join_and_leave();
	now = remains_now();
	EXPECT(now.contexts == before->contexts, "%lu contexts instead of %lu", now.contexts,
	       before->contexts);
	EXPECT(now.bytes <= before->bytes, "%lu bytes instead of %lu", now.bytes, before->bytes);
	EXPECT(now.sockets == before->sockets, "%lu sockets instead of %lu", now.sockets,
	       before->sockets);
	EXPECT(now.rows == before->rows, "%lu rows of processes and contexts instead of %lu",
	       now.rows, before->rows);
	EXPECT(now.members == before->members, "%lu sockets share ports instead of %lu",
	       now.members, before->members);
	printf("  folder: %lu contexts, %lu bytes, %lu sockets; directory: %lu rows, %lu members; "
	       "/dev/shm: %+ld KiB, Shmem: %+ld KiB\n",
	       now.contexts, now.bytes, now.sockets, now.rows, now.members,
	       (long)(now.shm_kb - before->shm_kb), (long)(now.shmem_kb - before->shmem_kb));
}

/* The movers keep their contexts to the end, so that the folder stays and shows what is left. */
static void run(const struct hardship *h)
{
	struct spawned bystanders[BYSTANDERS];
	struct remains before;
	uint64_t begin = now_ms();

	row("%s %lu --seed %lu", h->option, h->count, seed);
	time_limit(LIMIT_MORE + (unsigned int)(h->count / 4));
	printf("%s\n", row_name());
	fflush(stdout);
	bystander_start(&bystanders[BYSTANDER_MOVER], BYSTANDER_MOVER);
	join_and_leave();
	before = remains_now();
	bystander_start(&bystanders[BYSTANDER_OPENER], BYSTANDER_OPENER);
	h->run(h->count, seed);
	printf("  %.1f s\n", (double)(now_ms() - begin) / 1000);
	for (int i = 0; i < BYSTANDERS; i++)
		bystander_stop(&bystanders[i], (enum bystander)i);
	bystander_end(&bystanders[BYSTANDER_OPENER]);
	expect_nothing_left(&before);
	bystander_end(&bystanders[BYSTANDER_MOVER]);
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	bystander_main(argc, argv);
	life_main(argc, argv);
	cancelled_main(argc, argv);
	forked_main(argc, argv);
	arguments(argc, argv);
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		if (cases[i].count && cases[i].run == fork_case && !forked_possible()) {
			printf("SKIPPED: this system allows no io_uring\n");
			return SKIPPED;
		}
	}
	sandbox_enter();
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (cases[i].count)
			run(&cases[i]);
	return sandbox_end();
}
