/* SPDX-License-Identifier: MIT */
/*
 * Instructions that let a core rest until a word changes: UMWAIT of Intel's WAITPKG, MWAITX of AMD.
 * The thread keeps its core, so they suit waits shorter than a sleep and a wake-up:
 * docs/DECISIONS.md.
 */
#ifndef AV_BASE_HW_WAIT_H
#define AV_BASE_HW_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct av_hw_wait {
	const char *name;
	bool (*available)(void);
	bool resting; /* the core really rests; false for a loop */

	/*
	 * Rest while *word is @expected, for at most about 100000 cycles of the time-stamp counter.
	 * May return at any time without a reason. Any process that maps the word may change it.
	 */
	void (*wait)(const _Atomic uint32_t *word, uint32_t expected);
};

/* All kinds, the best first; the last has no name. */
extern const struct av_hw_wait av_hw_waits[];

/* The kind of that name, or NULL if this machine does not have it. */
const struct av_hw_wait *av_hw_wait_by_name(const char *name);

/* The best kind on this machine; NULL: none really rests. */
const struct av_hw_wait *av_hw_wait_best(void);

#endif
