/* SPDX-License-Identifier: MIT */
/*
 * The clocks of a test program, of which a test skips a part: whoever looks at them (base/clock.h)
 * finds that so much time has passed, and nobody has waited. Between two skips they go on as ever,
 * so calls of the kernel that wait until a moment wait longer by what was skipped.
 */
#ifndef TEST_SKIPPED_CLOCK_H
#define TEST_SKIPPED_CLOCK_H

#include <stdint.h>

/* For all forked children, too. Clocks of processors' time stay. */
void clock_skip_ns(uint64_t ns);

#endif
