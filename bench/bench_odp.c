/* SPDX-License-Identifier: MIT */
/*
 * On-demand paging, as seen by a peer that writes a word into each page of a region: pages new to
 * the device (present in the process, or not), pages valid in the device, prefetched pages, and
 * pinned pages.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#define PAGE  4096ul
#define PAGES 4096
#define PARTS 32

enum figure {
	PINNED,
	KNOWN,
	FAULT,
	FAULT_ABSENT,
	PREFETCH,
	PREFETCH_ABSENT,
	AFTER_PREFETCH,
	FIGURES
};
static const char *const name[FIGURES] = {
	[PINNED] = "odp_pinned_write_ns",
	[KNOWN] = "odp_known_write_ns",
	[FAULT] = "odp_fault_write_ns",
	[FAULT_ABSENT] = "odp_fault_absent_write_ns",
	[PREFETCH] = "odp_prefetch_page_ns",
	[PREFETCH_ABSENT] = "odp_prefetch_absent_page_ns",
	[AFTER_PREFETCH] = "odp_prefetched_write_ns",
};

static struct end e;
static struct ibv_mr *source;

static size_t pages(void)
{
	return (size_t)bench_count(PAGES, PARTS);
}

/* Memory that the library does not know yet. @there: with its pages present. */
static void *memory(bool there)
{
	return bench_map(pages() * PAGE, PROT_READ | PROT_WRITE, there ? MAP_POPULATE : 0);
}

/* Write a word into each page of a range. Return: nanoseconds per page. */
static double write_some_ns(const struct ibv_mr *mr, size_t from, size_t to)
{
	uint64_t begin = now_ns();

	for (size_t i = from; i < to; i++) {
		const struct transfer t = {.opcode = IBV_WR_RDMA_WRITE,
					   .local = (uintptr_t)source->addr,
					   .remote = (uintptr_t)mr->addr + i * PAGE,
					   .lkey = source->lkey,
					   .rkey = mr->rkey,
					   .bytes = 8};

		end_transfer(&e, e.qp[0], &t);
	}
	return ns_each(begin, (int)(to - from));
}

/* Write a word into each page. Return: nanoseconds per page, the median over parts. */
static double write_ns(const struct ibv_mr *mr)
{
	double ns[PARTS];

	for (size_t part = 0; part < PARTS; part++)
		ns[part] = write_some_ns(mr, part * pages() / PARTS, (part + 1) * pages() / PARTS);
	return median_of(ns, PARTS);
}

static double prefetch_ns(const struct ibv_mr *mr)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr, .length = (uint32_t)mr->length, .lkey = mr->lkey};
	uint64_t begin = now_ns();
	int ret = ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
				&sge, 1);

	if (ret)
		DIE("ibv_advise_mr: %d", ret);
	return ns_each(begin, (int)pages());
}

/*
 * A region on new memory: time the first access to its pages, or the advice, and then the second
 * access.
 */
static void measure(bool there, bool prefetch, double *first, double *second)
{
	void *at = memory(there);
	struct ibv_mr *mr = end_reg(&e, at, pages() * PAGE, END_RIGHTS | IBV_ACCESS_ON_DEMAND);

	*first = prefetch ? prefetch_ns(mr) : write_ns(mr);
	*second = write_ns(mr);
	end_dereg(mr);
	munmap(at, pages() * PAGE);
}

static double pinned_ns(void)
{
	void *at = memory(true);
	struct ibv_mr *mr = end_reg(&e, at, pages() * PAGE, END_RIGHTS);
	double ns = write_ns(mr);

	end_dereg(mr);
	munmap(at, pages() * PAGE);
	return ns;
}

static struct series all[FIGURES], known, prefetched;

static void run(void)
{
	double ns[FIGURES], ignored;

	ns[PINNED] = pinned_ns();
	measure(true, false, &ns[FAULT], &ns[KNOWN]);
	measure(false, false, &ns[FAULT_ABSENT], &ignored);
	measure(true, true, &ns[PREFETCH], &ns[AFTER_PREFETCH]);
	measure(false, true, &ns[PREFETCH_ABSENT], &ignored);
	for (int f = 0; f < FIGURES; f++)
		series_add(&all[f], ns[f]);
	series_add(&known, ns[KNOWN] / ns[PINNED]);
	series_add(&prefetched, ns[PREFETCH_ABSENT] / (ns[FAULT_ABSENT] - ns[KNOWN]));
}

int main(void)
{
	void *at = bench_map(PAGE, PROT_READ | PROT_WRITE, MAP_POPULATE);

	time_limit(600);
	end_open(&e);
	end_add_pairs(&e, 2, 16);
	source = end_reg(&e, at, PAGE, END_RIGHTS);
	for (int i = 0; i < BENCH_RUNS; i++)
		run();
	for (int f = 0; f < FIGURES; f++)
		series_print(&all[f], name[f], "4KiB");
	series_print_most(&known, "odp_known/pinned", "4KiB", 1.3);
	series_print_most(&prefetched, "odp_prefetch/fault_absent", "4KiB", 1);
	end_dereg(source);
	end_close(&e);
	munmap(at, PAGE);
	return 0;
}
