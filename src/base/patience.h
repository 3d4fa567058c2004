/* SPDX-License-Identifier: MIT */
/*
 * How long anybody waits for what only a peer can end, and a peer's memory may not tell the truth.
 * Far more than a lock is ever held, on a machine that is busy, too; about what retries take.
 */
#ifndef AV_BASE_PATIENCE_H
#define AV_BASE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define AV_PATIENCE_NS 2000000000ull

/*
 * How long the owner of memory waits for a copy of a peer's where it can also do without: after
 * that the peer counts as stopped. Much more than most copies take; a longer one costs the owner
 * pages that exist twice for a while, and nobody a byte.
 */
#define AV_STOPPED_NS 50000000ull

/*
 * How long a lock may be held by one process, and nothing change, before its holder counts as
 * stopped for those who can do without: far more than a request takes, on a busy machine.
 */
#define AV_STUCK_NS 20000000ull

/* Is it too early to give up after @ns? @until: 0 before the first call */
static inline bool av_patient_for(uint64_t *until, uint64_t ns)
{
	uint64_t now = av_now_coarse_ns();

	if (*until == 0)
		*until = now + ns;
	return now < *until;
}

static inline bool av_patient(uint64_t *until)
{
	return av_patient_for(until, AV_PATIENCE_NS);
}

#endif
