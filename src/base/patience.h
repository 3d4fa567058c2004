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

/* Is it too early to give up? @until: 0 before the first call */
static inline bool av_patient(uint64_t *until)
{
	uint64_t now = av_now_coarse_ns();

	if (*until == 0)
		*until = now + AV_PATIENCE_NS;
	return now < *until;
}

#endif
