/* SPDX-License-Identifier: MIT */
/* What tests of locks share: identities of processes, and participants of one process or several.
 */
#ifndef AV_TESTS_LOCK_FIXTURE_H
#define AV_TESTS_LOCK_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "lib/check.h"
#include "lib/sanitized.h"

#define PROCESSES 8u /* identities 1 .. PROCESSES - 1; this process is 1 */

/* Seconds are for hangs only: nothing that is right takes so long. */
#define TOO_LONG_S 120
static inline time_t deadline(void)
{
	return time(NULL) + TOO_LONG_S;
}

/* Memory that forked children share; all zeros. */
void *shared_memory(size_t bytes);

/* Who is dead: settled by the test, for this process and its children. */
extern _Atomic bool *dead;

/* Before each test: everybody lives. */
int fixture_setup(void **state);

/* A child with that identity, in which @run is called. Ends with this process. */
pid_t fork_as(uint32_t identity, void (*run)(void *arg), void *arg);

/* Kill it, and let its identity be dead. */
void kill_as(uint32_t identity, pid_t pid);

struct participant {
	uint32_t index, n;
	uint64_t random;
};

uint32_t draw(struct participant *p, uint32_t below);
void pauses(uint32_t n);

/* The first is the caller; the others are threads of its process, or processes. */
#define PARTICIPANTS_MAX 3u
void all_run(uint32_t n, bool processes, void (*run)(struct participant *p));

/* @run and then @judge, for 2 and 3 threads and processes; @begin: before, makes the arena anew. */
void each_cast(void (*begin)(void), void (*run)(struct participant *p), void (*judge)(uint32_t n));

#endif
