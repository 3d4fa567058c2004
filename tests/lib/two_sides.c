/* SPDX-License-Identifier: MIT */
#include "lib/two_sides.h"

#include "lib/expect.h"
#include "lib/sandbox.h"

#define LIMIT 200 /* seconds */

struct side a, b;

void two_sides_open(int argc, char **argv)
{
	sides_begin(argc, argv, LIMIT);
	side_open(&a, NULL);
	side_start(&b);
}

int two_sides_close(void)
{
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
