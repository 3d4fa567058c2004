/* SPDX-License-Identifier: MIT */
/*
 * The cost of registering memory. Compares registration with populating the same pages without it,
 * and changing the rights of a large region with registering it again. Also measures ODP regions of
 * any length. (bench_key.c varies the number of regions.)
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define LARGE	   (1ul << 30)
#define HUGE_RANGE (1ul << 40)
#define PAGE	   4096ul
#define LOCAL	   IBV_ACCESS_LOCAL_WRITE
#define REMOTE	   (LOCAL | IBV_ACCESS_REMOTE_READ)
#define ODP	   IBV_ACCESS_ON_DEMAND

static struct end e;

/* --- pinned memory --------------------------------------------------------------- */

#define PIECES 512 /* maximum */

/* @pieces pieces of one mapping, with gaps as long as the pieces. */
static const struct shape {
	size_t bytes;
	int pieces;
	bool huge; /* huge pages, if the system has any */
	const char *name;
} shape[] = {
	{PAGE, PIECES, false, "4KiB"},	       {8 * PAGE, 64, false, "32KiB"},
	{64 * PAGE, 16, false, "256KiB"},      {16384 * PAGE, 1, false, "64MiB"},
	{16384 * PAGE, 1, true, "64MiB huge"}, {LARGE, 1, false, "1GiB"},
};

static int pieces_of(const struct shape *s)
{
	return bench_count(s->pieces, 1);
}

static size_t bytes_of(const struct shape *s)
{
	return bench_bytes(s->bytes, PAGE);
}

static void *new_memory(const struct shape *s)
{
	size_t bytes = 2 * bytes_of(s) * (size_t)pieces_of(s);
	uint8_t *at = bench_map(bytes, PROT_READ | PROT_WRITE, 0);

	if (s->huge)
		(void)!madvise(at, bytes, MADV_HUGEPAGE);
	/* Makes the mapping known to the library now; that cost is measured separately. */
	end_dereg(end_reg(&e, at + bytes_of(s), PAGE, LOCAL));
	return at;
}

static void free_memory(const struct shape *s, void *at)
{
	munmap(at, 2 * bytes_of(s) * (size_t)pieces_of(s));
}

static double populate_us(const struct shape *s, uint8_t *at)
{
	double us[PIECES];

	for (int i = 0; i < pieces_of(s); i++) {
		uint64_t begin = now_ns();

		if (madvise(at + 2 * bytes_of(s) * (size_t)i, bytes_of(s), MADV_POPULATE_WRITE))
			DIE("MADV_POPULATE_WRITE: errno %d", errno);
		us[i] = us_each(begin, 1);
	}
	return median_of(us, pieces_of(s));
}

static double reg_us(const struct shape *s, uint8_t *at)
{
	struct ibv_mr *mr[PIECES];
	double us[PIECES];

	for (int i = 0; i < pieces_of(s); i++) {
		uint64_t begin = now_ns();

		mr[i] = end_reg(&e, at + 2 * bytes_of(s) * (size_t)i, bytes_of(s), LOCAL);
		us[i] = us_each(begin, 1);
	}
	for (int i = 0; i < pieces_of(s); i++)
		end_dereg(mr[i]);
	return median_of(us, pieces_of(s));
}

/*
 * With all pages present. A single piece is measured several times, because everything is cold the
 * first time.
 */
static double present_us(const struct shape *s, uint8_t *at,
			 double (*us_of)(const struct shape *, uint8_t *))
{
	int times = s->pieces == 1 ? 5 : 1;
	double us[5];

	for (int i = 0; i < times; i++)
		us[i] = us_of(s, at);
	return median_of(us, times);
}

/*
 * Register and populate memory of their own, taking turns at going first: fresh pages, then the
 * same pages again.
 */
static void once(const struct shape *s, bool reg_first, double reg[2], double populate[2])
{
	for (int i = 0; i < 2; i++) {
		bool registers = (i == 0) == reg_first;
		double *us = registers ? reg : populate;
		void *at = new_memory(s);

		us[0] = registers ? reg_us(s, at) : populate_us(s, at);
		us[1] = present_us(s, at, registers ? reg_us : populate_us);
		free_memory(s, at);
	}
}

static void pinned(const struct shape *s)
{
	static const char *const names[2][3] = {
		{"reg_fresh_us", "populate_fresh_us", "reg/populate_fresh"},
		{"reg_present_us", "populate_present_us", "reg/populate_present"},
	};
	struct series all[2][3] = {0};
	double reg[2], populate[2];

	for (int i = 0; i < BENCH_RUNS; i++) {
		once(s, i % 2, reg, populate);
		for (int present = 0; present < 2; present++) {
			series_add(&all[present][0], reg[present]);
			series_add(&all[present][1], populate[present]);
			series_add(&all[present][2], reg[present] / populate[present]);
		}
	}
	for (int present = 0; present < 2; present++) {
		series_print(&all[present][0], names[present][0], s->name);
		series_print(&all[present][1], names[present][1], s->name);
		series_print_most(&all[present][2], names[present][2], s->name, 1.3);
	}
}

/* --- the first region on a mapping ----------------------------------------------- */

#define MAPPINGS 64

/* For mappings that lie apart. */
static double first_us(void)
{
	uint8_t *at = bench_map(2 * PAGE * MAPPINGS, PROT_NONE, 0);
	struct ibv_mr *mr[MAPPINGS];
	uint64_t begin;
	double us;

	for (int i = 0; i < MAPPINGS; i++)
		if (mprotect(at + 2 * PAGE * (size_t)i, PAGE, PROT_READ | PROT_WRITE))
			DIE("mprotect: errno %d", errno);
	begin = now_ns();
	for (int i = 0; i < MAPPINGS; i++)
		mr[i] = end_reg(&e, at + 2 * PAGE * (size_t)i, PAGE, LOCAL);
	us = us_each(begin, MAPPINGS);
	for (int i = 0; i < MAPPINGS; i++)
		end_dereg(mr[i]);
	munmap(at, 2 * PAGE * MAPPINGS);
	return us;
}

static void new_mappings(void)
{
	struct series s = {0};

	for (int i = 0; i < BENCH_RUNS; i++)
		series_add(&s, first_us());
	series_print(&s, "reg_fresh_new_mapping_us", "4KiB");
}

/* --- rights of a large region ---------------------------------------------------- */

static double rereg_us(struct ibv_mr *mr, int access)
{
	uint64_t begin = now_ns();

	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access))
		DIE("ibv_rereg_mr: errno %d", errno);
	return us_each(begin, 1);
}

/* The same change by deregistering and registering again. */
static double anew_us(struct ibv_mr **mr, void *at, int access)
{
	uint64_t begin = now_ns();
	size_t bytes = (*mr)->length;

	end_dereg(*mr);
	*mr = end_reg(&e, at, bytes, access);
	return us_each(begin, 1);
}

/* Change from one set of rights to another; the way back is not measured. */
static void change_rights(const char *const name[3], void *at, size_t bytes, int from, int to)
{
	struct series cheap = {0}, dear = {0}, ratio = {0};
	struct ibv_mr *mr = end_reg(&e, at, bytes, from);

	for (int i = 0; i < BENCH_RUNS; i++) {
		double rereg = rereg_us(mr, to), anew;

		rereg_us(mr, from);
		anew = anew_us(&mr, at, to);
		anew_us(&mr, at, from);
		series_add(&cheap, rereg);
		series_add(&dear, anew);
		series_add(&ratio, rereg / anew);
	}
	end_dereg(mr);
	series_print(&cheap, name[0], "1GiB");
	series_print(&dear, name[1], "1GiB");
	series_print_most(&ratio, name[2], "1GiB", 1.1);
}

/* Remote rights do not concern pages. The right to write does: all pages must then be writable. */
static void large_region(void)
{
	static const char *const remote[] = {"remote_rereg_us", "remote_anew_us",
					     "remote_rereg/anew"};
	static const char *const write[] = {"write_rereg_us", "write_anew_us", "write_rereg/anew"};
	static const char *const no_write[] = {"no_write_rereg_us", "no_write_anew_us",
					       "no_write_rereg/anew"};
	size_t bytes = bench_bytes(LARGE, PAGE);
	void *at = bench_map(bytes, PROT_READ | PROT_WRITE, MAP_POPULATE);

	change_rights(remote, at, bytes, LOCAL, REMOTE);
	change_rights(write, at, bytes, 0, LOCAL);
	change_rights(no_write, at, bytes, LOCAL, 0);
	munmap(at, bytes);
}

/* --- on-demand regions ----------------------------------------------------------- */

#define ODP_REGIONS 1000

/* Many at a time, because one registration takes hardly longer than reading the clock twice. */
static double odp_reg_ns(void *at, size_t bytes)
{
	struct ibv_mr *mr[ODP_REGIONS];
	uint64_t begin = now_ns();
	double ns;

	for (int i = 0; i < ODP_REGIONS; i++)
		mr[i] = end_reg(&e, at, bytes, LOCAL | ODP);
	ns = ns_each(begin, ODP_REGIONS);
	for (int i = 0; i < ODP_REGIONS; i++)
		end_dereg(mr[i]);
	return ns;
}

static void on_demand(void)
{
	struct series small = {0}, huge = {0}, ratio = {0};
	size_t bytes = bench_bytes(HUGE_RANGE, PAGE);
	void *at = bench_map(bytes, PROT_NONE, MAP_NORESERVE);

	/* The first ODP region of a process may set up what all share. */
	odp_reg_ns(at, PAGE);
	for (int i = 0; i < BENCH_RUNS; i++) {
		double few = odp_reg_ns(at, PAGE), lots = odp_reg_ns(at, bytes);

		series_add(&small, few);
		series_add(&huge, lots);
		series_add(&ratio, lots / few);
	}
	munmap(at, bytes);
	series_print(&small, "odp_reg_ns", "4KiB");
	series_print(&huge, "odp_reg_ns", "1TiB");
	series_print_most(&ratio, "odp_reg_1TiB/4KiB", "1TiB", 1.3);
}

int main(void)
{
	time_limit(600);
	end_open(&e);
	for (size_t i = 0; i < COUNT_OF(shape); i++)
		pinned(&shape[i]);
	new_mappings();
	large_region();
	on_demand();
	end_close(&e);
	return 0;
}
