/* SPDX-License-Identifier: MIT */
#include "bad_input_fixture.h"

#include "lib/sandbox.h"

struct side here, there;
struct node *n, *m;

int bad_input_test(int argc, char **argv, void (*run)(void))
{
	sides_begin(argc, argv, 200);
	side_open(&here, NULL);
	side_open(&there, NULL);
	n = here.node;
	m = there.node;
	run();
	side_stop(&here);
	side_stop(&there);
	return sandbox_end();
}
