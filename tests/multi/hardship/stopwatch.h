/* SPDX-License-Identifier: MIT */
/*
 * How long a bystander's steps take, and whether that is the library's doing.
 *
 * The machine has other things to do. So a control thread of the same process and priority does
 * nothing but sleep for a millisecond and compute a little, and notes how late it is. A step that
 * takes longer than STEP_LIMIT_MS is too long if the control was never later than CONTROL_LIMIT_MS
 * while the step lasted. What the step's thread and its partner have waited for a core, as the
 * scheduler counts it, does not count: the control may have had the other core.
 */
#ifndef HARDSHIP_STOPWATCH_H
#define HARDSHIP_STOPWATCH_H

#include <stdint.h>

#include "lib/sanitized.h"
#include "lib/side.h"

/* Sanitized code is several times as slow; on the wire, lost packets wait for timers of 34 ms. */
#define STEP_LIMIT_MS	 (on_the_wire() ? 400u : SANITIZED ? 300u : 100u)
#define CONTROL_LIMIT_MS 50u

struct stopwatch_report {
	uint64_t steps, longest_ns;
	uint64_t control_then_ns; /* how late the control was during the longest step */
	uint64_t control_ns;	  /* and at all */
	uint64_t excused;	  /* steps over the limit for which the machine is to blame */
	uint64_t too_long;	  /* and those for which it is not known to be */
	char longest[32];	  /* name of the longest step */
};

/* Start the control thread. One at a time. @partner: the process that steps wait for, too */
void stopwatch_start(pid_t partner);
/* End it. Return: what was seen. */
struct stopwatch_report stopwatch_stop(void);

/* A step of the calling thread. @name must stay. */
void step_begin(const char *name);
void step_end(void);

#endif
