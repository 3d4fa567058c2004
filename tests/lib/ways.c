/* SPDX-License-Identifier: MIT */
#include "lib/ways.h"

#include "lib/expect.h"

static void one_way(struct side *a, struct side *b, void (*rows)(const char *way), const char *way)
{
	rows(way);
	row("[%s] end", way);
	side_stop(b);
	side_stop(a);
}

void three_ways(struct side *a, struct side *b, void (*rows)(const char *way))
{
	side_open(a, NULL);
	side_start(b);
	one_way(a, b, rows, "two processes");
	side_open(a, NULL);
	side_open(b, NULL);
	one_way(a, b, rows, "two contexts");
	side_open(a, NULL);
	side_open(b, a->node->ctx);
	one_way(a, b, rows, "one context");
}
