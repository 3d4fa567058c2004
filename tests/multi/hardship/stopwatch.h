/* SPDX-License-Identifier: MIT */
/*
 * How long a bystander's steps take, and whether that is the library's doing.
 *
 * The machine has other things to do. So a control thread of the same process and priority does
 * nothing but sleep for a millisecond and compute a little, and notes how late it is. A step waits
 * for PARTIES threads at most, one after the other, each of which may be as late. What it takes
 * beyond that must not exceed STEP_LIMIT_MS.
 */
#ifndef HARDSHIP_STOPWATCH_H
#define HARDSHIP_STOPWATCH_H

#include <stdint.h>

#include "lib/sanitized.h"
#include "lib/side.h"

/* Sanitized code is several times as slow; on the wire, lost packets wait for timers of 34 ms. */
#define STEP_LIMIT_MS (on_the_wire() ? 400u : SANITIZED ? 300u : 100u)
#define PARTIES	      4u

struct stopwatch_report {
	uint64_t steps, longest_ns;
	uint64_t control_then_ns; /* how late the control was during the longest step, in total */
	uint64_t excused;	  /* steps over the limit while the control was late, too */
	char longest[32];	  /* name of the longest step */
};

/* Start the control thread. One at a time. */
void stopwatch_start(void);
/* End it. Return: what was seen. */
struct stopwatch_report stopwatch_stop(void);

/* A step of the calling thread. @name must stay. */
void step_begin(const char *name);
void step_end(void);

#endif
