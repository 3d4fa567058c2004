/* SPDX-License-Identifier: MIT */
/*
 * The cost of adoption: registers and deregisters memory whose pages move into the segment and
 * back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

static struct end e;

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = {
	{"4KiB", 4ul << 10}, {"64KiB", 64ul << 10}, {"1MiB", 1ul << 20}, {"16MiB", 16ul << 20}};

static void measure(const char *size, size_t bytes, bool present)
{
	struct series in = {0}, out = {0};
	char name[32];

	for (int run = 0; run < BENCH_RUNS; run++) {
		void *at = bench_map(bytes, PROT_READ | PROT_WRITE, 0);
		struct ibv_mr *mr;
		uint64_t begin;

		if (present)
			memset(at, 1, bytes);
		begin = now_ns();
		mr = end_reg(&e, at, bytes, END_RIGHTS);
		series_add(&in, us_each(begin, 1));
		begin = now_ns();
		end_dereg(mr);
		series_add(&out, us_each(begin, 1));
		munmap(at, bytes);
	}
	snprintf(name, sizeof(name), "adopt_%s_us", present ? "present" : "fresh");
	series_print(&in, name, size);
	snprintf(name, sizeof(name), "give_back_%s_us", present ? "present" : "fresh");
	series_print(&out, name, size);
}

int main(void)
{
	time_limit(300);
	setenv("ANYVERBS_ADOPT", "always", 1);
	end_open(&e);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		measure(sizes[i].name, bench_bytes(sizes[i].bytes, 4096), true);
		measure(sizes[i].name, bench_bytes(sizes[i].bytes, 4096), false);
	}
	end_close(&e);
	return failures() ? 1 : 0;
}
