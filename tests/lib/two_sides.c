/* SPDX-License-Identifier: MIT */
#include "lib/two_sides.h"

#include "lib/expect.h"
#include "lib/sandbox.h"

#define LIMIT 200 /* seconds */

struct side a, b;

void two_sides_open(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(LIMIT);
	sandbox_enter();
	side_open(&a, NULL);
	side_start(&b);
}

int two_sides_close(void)
{
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
	return summary();
}
