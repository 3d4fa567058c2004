/* SPDX-License-Identifier: MIT */
/* How a program is started so that it sees our devices. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "option.h"

extern const struct av_value av_launch_device;	    /* adds to ANYVERBS_DEVICES */
extern const struct av_value av_launch_strict;	    /* adds to each of ANYVERBS_DEVICES */
extern const struct av_value av_launch_shared_heap; /* sets ANYVERBS_SHARED_HEAP */

/* clang-format off */
/* The options of commands that start programs. */
#define AV_LAUNCH_OPTIONS \
	{'d', "device", "SPEC", &av_launch_device, NULL, \
	 "show this device, not any0; repeat it for more", NULL}, \
	{'s', "shared-heap", "WHEN", &av_launch_shared_heap, NULL, \
	 "share large memory that the program allocates: open,\n" \
	 "once it has opened a device, as without this option;\n" \
	 "always, as without WHEN; never", \
	 "always"}, \
	{0, "strict", "SEED", &av_launch_strict, NULL, \
	 "use every freedom that the specification leaves to\n" \
	 "devices; the same SEED gives the same behaviour", \
	 "0"}
/* clang-format on */

/*
 * The seed of --strict; 0: without that option. @otherwise: what it is unless the user gives one;
 * 0: one is drawn, and told
 */
uint64_t av_launch_seed(uint64_t otherwise);
/* Another one. Context: before av_launch_prepare() */
void av_launch_reseed(uint64_t to);

/*
 * Set the environment that such programs need, in this process, by these options and by what is set
 * already. Return: false if that cannot be, already reported
 */
bool av_launch_prepare(void);

/* Become the program. @argv: ends with NULL. Return: exit status, if it cannot be; reported */
int av_launch(char **argv);
