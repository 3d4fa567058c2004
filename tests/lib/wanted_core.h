/* SPDX-License-Identifier: MIT */
/*
 * A core that others want: a thread that yields it waits until they have had it. Include this in
 * one source of a program only, since it replaces the C library's sched_yield().
 */
#ifndef AV_TESTS_WANTED_CORE_H
#define AV_TESTS_WANTED_CORE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OTHERS_HAVE_IT_NS 8000000
#define ENOUGH_YIELDS	  40u /* far more than a wait needs that looks at its time */

static _Atomic bool core_is_wanted;
static _Atomic unsigned int yields; /* of a wanted core */

__attribute__((visibility("default"))) int sched_yield(void)
{
	const struct timespec slice = {.tv_nsec = OTHERS_HAVE_IT_NS};

	if (!atomic_load(&core_is_wanted))
		return (int)syscall(SYS_sched_yield);
	atomic_fetch_add(&yields, 1);
	return nanosleep(&slice, NULL);
}

static inline void want_core(bool wanted)
{
	atomic_store(&yields, 0);
	atomic_store(&core_is_wanted, wanted);
}

#endif
