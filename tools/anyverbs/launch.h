/* SPDX-License-Identifier: MIT */
/* How a program is started so that it sees our devices. */
#ifndef AV_TOOL_LAUNCH_H
#define AV_TOOL_LAUNCH_H

#include <stdbool.h>

#include "option.h"

extern const struct av_value av_launch_device; /* adds to ANYVERBS_DEVICES */
extern bool av_launch_shared_heap;

/* clang-format off */
/* The options of commands that start programs. */
#define AV_LAUNCH_OPTIONS \
	{'d', "device", "SPEC", &av_launch_device, NULL, \
	 "show this device, not any0; repeat it for more", false}, \
	{'s', "shared-heap", NULL, NULL, &av_launch_shared_heap, \
	 "let the program's large blocks of memory be shared\nfrom the beginning", false}
/* clang-format on */

/*
 * Set the environment that such programs need, in this process, by these options and by what is set
 * already. Return: false if that cannot be, already reported
 */
bool av_launch_prepare(void);

/* Become the program. @argv: ends with NULL. Return: exit status, if it cannot be; reported */
int av_launch(char **argv);

#endif
