/* SPDX-License-Identifier: MIT */
#include "bad_input_fixture.h"

#include "lib/sandbox.h"

struct side here, there;
struct node *n, *m;

int bad_input_test(int argc, char **argv, void (*run)(void))
{
	side_agent_main(argc, argv);
	time_limit(200);
	sandbox_enter();
	side_open(&here, NULL);
	side_open(&there, NULL);
	n = here.node;
	m = there.node;
	run();
	side_stop(&here);
	side_stop(&there);
	sandbox_leave();
	return summary();
}
