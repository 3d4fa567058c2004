/* SPDX-License-Identifier: MIT */
/* What tests of locks that are a thread's own share: identities of processes, names of threads, and
 * how one brings such a lock about. */
#ifndef AV_TESTS_BIASED_LOCK_FIXTURE_H
#define AV_TESTS_BIASED_LOCK_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/biased_lock.h"
#include "lib/check.h"
#include "lib/sanitized.h"

#define PROCESSES 8 /* identities 1 .. PROCESSES - 1 */

/* Memory that forked children share; all zeros. */
void *shared_memory(size_t bytes);

/* Who is dead: settled by the test, for this process and its children. */
extern _Atomic bool *dead;
bool identity_lives(uint32_t owner);

/* Before each test. Return: 0; of a machine without membarrier(2), where no lock is anybody's own,
 * -1 */
int fixture_setup(void **state);

static inline bool is_own_of(const struct av_biased_lock *b, uint64_t name)
{
	return atomic_load(&b->thread) == name;
}

/* One turn of the calling thread, in the way that never gives up. */
static inline void turn(struct av_biased_lock *b)
{
	av_biased_acquire_plain(b);
	av_biased_release(b);
}

/* Turns until the lock is the caller's own. Return: how many that took; more than @most: it is not
 */
uint32_t turns_to_own(struct av_biased_lock *b, uint32_t most);

/* Seconds are for hangs only: nothing that is right takes so long. */
#define TOO_LONG_S 60
static inline time_t deadline(void)
{
	return time(NULL) + TOO_LONG_S;
}

#endif
