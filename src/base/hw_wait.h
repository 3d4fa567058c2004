/* SPDX-License-Identifier: MIT */
/*
 * Instructions that let a core rest until a word of memory changes, in user space: UMWAIT of
 * Intel's WAITPKG, MWAITX of AMD. The thread stays on its core, so they are for waits that are
 * shorter than putting it to sleep and waking it; docs/DECISIONS.md.
 */
#ifndef AV_BASE_HW_WAIT_H
#define AV_BASE_HW_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct av_hw_wait {
	const char *name;
	bool (*available)(void);
	bool resting; /* of use: the core rests meanwhile, which it does not in a loop */

	/*
	 * Rest while *word is @expected, for about 100000 cycles of the time-stamp counter at most.
	 * May return at any time for no reason. The word may be changed by any process that has it
	 * mapped.
	 */
	void (*wait)(const _Atomic uint32_t *word, uint32_t expected);
};

/* All there are, the best first; ended by one without a name. */
extern const struct av_hw_wait av_hw_waits[];

/* The one of that name, if this machine has it; NULL. */
const struct av_hw_wait *av_hw_wait_by_name(const char *name);

/* The best this machine has, NULL if it has none that rests. */
const struct av_hw_wait *av_hw_wait_best(void);

#endif
