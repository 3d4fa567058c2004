/* SPDX-License-Identifier: MIT */
/*
 * Threads are cancelled in calls that the shared heap answers. None of them is a cancellation
 * point: a thread that ended there would keep the heap's lock, and all others wait for ever.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap_fixture.h"

#define LARGE ((size_t)16 << 20) /* too large to be kept when it is given back */

static void call_malloc(void *unused)
{
	free(memset(malloc(LARGE), 1, LARGE));
}

static void call_realloc(void *unused)
{
	free(realloc(memset(malloc(LARGE), 1, LARGE), 2 * LARGE));
}

static void call_mmap(void *unused)
{
	uint8_t *p = map_private(LARGE);

	memset(p, 1, LARGE);
	munmap(p, LARGE);
}

static void call_mremap(void *unused)
{
	uint8_t *p = map_private(LARGE);

	memset(p, 1, LARGE);
	p = mremap(p, LARGE, 2 * LARGE, MREMAP_MAYMOVE);
	EXPECT(p != MAP_FAILED, "mremap");
	munmap(p, 2 * LARGE);
}

static const struct {
	const char *name;
	void (*call)(void *p);
} rows[] = {
	{"malloc() and free()", call_malloc},
	{"realloc()", call_realloc},
	{"mmap() and munmap()", call_mmap},
	{"mremap()", call_mremap},
	{"fork()", call_fork},
	{"mprotect()", call_mprotect},
};

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint8_t *p = map_private(BYTES);
		struct ibv_mr *mr = reg(p, BYTES);

		row("cancelled before %s", rows[i].name);
		fill(p, BYTES, 3);
		EXPECT(outlives_cancellation(rows[i].call, p), "the thread has ended in there");
		rows[i].call(p); /* nobody holds what that needs */
		expect_filled(p, BYTES, 3);
		expect_reached(p, mr);
		dereg(mr);
		munmap(p, BYTES);
	}
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
