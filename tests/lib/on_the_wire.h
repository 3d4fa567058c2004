/* SPDX-License-Identifier: MIT */
/* Does all traffic between queue pairs travel in packets? So it does in tests called wire.NAME. */
#ifndef TEST_ON_THE_WIRE_H
#define TEST_ON_THE_WIRE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool on_the_wire(void)
{
	const char *transport = getenv("ANYVERBS_TRANSPORT");

	return transport && strcmp(transport, "wire") == 0;
}

#endif
