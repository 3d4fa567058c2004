/* SPDX-License-Identifier: MIT */
/*
 * The cost for a program of returning memory (munmap(), MADV_DONTNEED) that the library watches,
 * compared with memory that it does not watch. Measures memory under a region, under an ODP region
 * with valid pages, and other memory of a process that has such regions.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#define PAGE	4096ul
#define SAMPLES 51 /* each in its own mapping; one value is their median */

enum kind { NOTHING, BESIDE, REGION, ON_DEMAND, KINDS };
enum way { UNMAP, DONTNEED, WAYS };

static const struct {
	size_t bytes;
	const char *name;
} size[] = {{PAGE, "4KiB"}, {1ul << 20, "1MiB"}};
#define SIZES COUNT_OF(size)

static const char *const names[WAYS][KINDS] = {
	[UNMAP] = {"munmap_us", "munmap_beside_us", "munmap_registered_us", "munmap_on_demand_us"},
	[DONTNEED] = {"dontneed_us", "dontneed_beside_us", "dontneed_registered_us",
		      "dontneed_on_demand_us"},
};

static struct series all[WAYS][KINDS][SIZES];
static struct end e;

static struct ibv_mr *region(enum kind kind, void *at, size_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = (uint32_t)bytes};
	struct ibv_mr *mr;

	if (kind < REGION)
		return NULL;
	mr = end_reg(&e, at, bytes, END_RIGHTS | (kind == ON_DEMAND ? IBV_ACCESS_ON_DEMAND : 0));
	sge.lkey = mr->lkey;
	if (kind == ON_DEMAND && ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1))
		DIE("ibv_advise_mr");
	return mr;
}

static double one_us(enum way way, enum kind kind, size_t bytes)
{
	/* The surrounding pages keep the mapping from merging with others. */
	uint8_t *around = bench_map(bytes + 2 * PAGE, PROT_NONE, 0), *at = around + PAGE;
	struct ibv_mr *mr;
	uint64_t begin;
	double us;
	int ret;

	if (mprotect(at, bytes, PROT_READ | PROT_WRITE) || madvise(at, bytes, MADV_POPULATE_WRITE))
		DIE("memory: errno %d", errno);
	mr = region(kind, at, bytes);
	begin = now_ns();
	ret = way == UNMAP ? munmap(at, bytes) : madvise(at, bytes, MADV_DONTNEED);
	us = us_each(begin, 1);
	if (ret)
		DIE("giving back: errno %d", errno);
	if (mr)
		end_dereg(mr);
	/* Leave the hole alone: something else may be mapped there by now. */
	munmap(around, PAGE);
	munmap(at + bytes, PAGE);
	if (way != UNMAP)
		munmap(at, bytes);
	return us;
}

static double median_us(enum way way, enum kind kind, size_t bytes)
{
	double us[SAMPLES];
	int samples = bench_count(SAMPLES, 1);

	for (int i = 0; i < samples; i++)
		us[i] = one_us(way, kind, bytes);
	return median_of(us, samples);
}

static void run(enum kind kind)
{
	for (enum way way = 0; way < WAYS; way++)
		for (size_t s = 0; s < SIZES; s++)
			series_add(&all[way][kind][s], median_us(way, kind, size[s].bytes));
}

int main(void)
{
	time_limit(600);
	for (int i = 0; i < BENCH_RUNS; i++) {
		run(NOTHING); /* no device is open, nobody listens */
		end_open(&e);
		end_dereg(region(REGION, bench_map(PAGE, PROT_READ | PROT_WRITE, 0), PAGE));
		for (enum kind kind = BESIDE; kind < KINDS; kind++)
			run(kind);
		end_close(&e);
	}
	for (enum way way = 0; way < WAYS; way++)
		for (size_t s = 0; s < SIZES; s++)
			for (enum kind kind = 0; kind < KINDS; kind++)
				series_print(&all[way][kind][s], names[way][kind], size[s].name);
	return 0;
}
