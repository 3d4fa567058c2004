/* SPDX-License-Identifier: MIT */
#include "fields_fixture.h"

#include "lib/sandbox.h"

struct side here;
struct node *n;

void spoil(void *what, const struct garbage *field)
{
	memset((uint8_t *)what + field->at, 0xa5, field->bytes);
}

void with_garbage(const void *good, size_t bytes, const struct garbage *fields, size_t count,
		  void (*use)(void *what))
{
	uint64_t copy[128];

	NEED(bytes <= sizeof(copy));
	memcpy(copy, good, bytes);
	row("no garbage, beside %s", fields[0].name);
	use(copy);
	for (size_t i = 0; i < count; i++) {
		memcpy(copy, good, bytes);
		spoil(copy, &fields[i]);
		row("garbage in %s", fields[i].name);
		use(copy);
	}
	memcpy(copy, good, bytes);
	for (size_t i = 0; i < count; i++)
		spoil(copy, &fields[i]);
	row("garbage in all, from %s on", fields[0].name);
	use(copy);
}

int fields_test(int argc, char **argv, void (*run)(void))
{
	sides_begin(argc, argv, 60);
	side_open(&here, NULL);
	n = here.node;
	run();
	side_stop(&here);
	return sandbox_end();
}
