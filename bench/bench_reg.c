/* SPDX-License-Identifier: MIT */
/*
 * What registering memory costs, and on what it depends: changing the rights of a large region against
 * making it anew, the number of regions there are, the length of an on-demand region.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "measure.h"

#define LARGE	   (1ul << 30)
#define HUGE_RANGE (1ul << 40)
#define PAGE	   4096ul
#define LOCAL	   IBV_ACCESS_LOCAL_WRITE
#define REMOTE	   (LOCAL | IBV_ACCESS_REMOTE_READ)
#define ODP	   IBV_ACCESS_ON_DEMAND

static struct ibv_pd *pd;

static void *map(size_t bytes, int prot, int flags)
{
	void *at = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (at == MAP_FAILED)
		DIE("mmap of %zu bytes: errno %d", bytes, errno);
	return at;
}

static struct ibv_mr *reg(void *at, size_t bytes, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, bytes, access);

	if (!mr)
		DIE("ibv_reg_mr of %zu bytes: errno %d", bytes, errno);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	if (ibv_dereg_mr(mr))
		DIE("ibv_dereg_mr: errno %d", errno);
}

static double us_since(uint64_t begin)
{
	return (double)(now_ns() - begin) / 1000;
}

/* --- rights of a large region --- */

static double rereg_us(struct ibv_mr *mr, int access)
{
	uint64_t begin = now_ns();

	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access))
		DIE("ibv_rereg_mr: errno %d", errno);
	return us_since(begin);
}

/* The same change the long way round. */
static double anew_us(struct ibv_mr **mr, void *at, int access)
{
	uint64_t begin = now_ns();

	dereg(*mr);
	*mr = reg(at, LARGE, access);
	return us_since(begin);
}

/* From one set of rights to another; the way back is not measured. */
static void change_rights(const char *const name[3], void *at, int from, int to)
{
	struct series cheap = {0}, dear = {0}, ratio = {0};
	struct ibv_mr *mr = reg(at, LARGE, from);

	for (int i = 0; i < BENCH_RUNS; i++) {
		double rereg = rereg_us(mr, to), anew;

		rereg_us(mr, from);
		anew = anew_us(&mr, at, to);
		anew_us(&mr, at, from);
		series_add(&cheap, rereg);
		series_add(&dear, anew);
		series_add(&ratio, rereg / anew);
	}
	dereg(mr);
	series_print(&cheap, name[0], "1GiB");
	series_print(&dear, name[1], "1GiB");
	series_print(&ratio, name[2], "1GiB");
}

/* Remote rights say nothing about pages; the right to write does: all of them must be writable then. */
static void large_region(void)
{
	static const char *const remote[] = {"remote_rereg_us", "remote_anew_us", "remote_rereg/anew"};
	static const char *const write[] = {"write_rereg_us", "write_anew_us", "write_rereg/anew"};
	static const char *const no_write[] = {"no_write_rereg_us", "no_write_anew_us",
					       "no_write_rereg/anew"};
	void *at = map(LARGE, PROT_READ | PROT_WRITE, MAP_POPULATE);

	change_rights(remote, at, LOCAL, REMOTE);
	change_rights(write, at, 0, LOCAL);
	change_rights(no_write, at, LOCAL, 0);
	munmap(at, LARGE);
}

/* --- many regions --- */

#define MANY   1000000
#define WINDOW 10000

enum part { FIRST, MIDDLE, LAST, PARTS };

static const int part_begin[PARTS] = {0, (MANY - WINDOW) / 2, MANY - WINDOW};

struct many {
	struct series ns[PARTS], flat;
};

static void reg_range(struct ibv_mr **mr, void *at, int begin, int end)
{
	for (int i = begin; i < end; i++)
		mr[i] = reg(at, PAGE, LOCAL);
}

static void dereg_range(struct ibv_mr **mr, void *at, int begin, int end)
{
	for (int i = begin; i < end; i++)
		dereg(mr[i]);
}

static void go_through(struct many *m, void (*range)(struct ibv_mr **, void *, int, int), struct ibv_mr **mr,
		       void *at)
{
	double ns[PARTS];
	int done = 0;

	for (int p = 0; p < PARTS; p++) {
		uint64_t begin;

		range(mr, at, done, part_begin[p]);
		done = part_begin[p] + WINDOW;
		begin = now_ns();
		range(mr, at, part_begin[p], done);
		ns[p] = (double)(now_ns() - begin) / WINDOW;
		series_add(&m->ns[p], ns[p]);
	}
	series_add(&m->flat, ns[LAST] / ns[FIRST]);
}

static void print_many(struct many *m, const char *const name[PARTS + 1])
{
	for (int p = 0; p < PARTS; p++)
		series_print(&m->ns[p], name[p], "1000000");
	series_print(&m->flat, name[PARTS], "1000000");
}

static void many_regions(void)
{
	static const char *const reg_name[] = {"reg_first_ns", "reg_middle_ns", "reg_last_ns",
					       "reg_last/first"};
	static const char *const dereg_name[] = {"dereg_first_ns", "dereg_middle_ns", "dereg_last_ns",
						 "dereg_last/first"};
	struct ibv_mr **mr = calloc(MANY, sizeof(*mr));
	void *at = map(PAGE, PROT_READ | PROT_WRITE, MAP_POPULATE);
	struct many regs = {0}, deregs = {0};

	if (!mr)
		DIE("no memory");
	for (int i = 0; i < BENCH_RUNS; i++) {
		go_through(&regs, reg_range, mr, at);
		go_through(&deregs, dereg_range, mr, at);
	}
	print_many(&regs, reg_name);
	print_many(&deregs, dereg_name);
	munmap(at, PAGE);
	free(mr);
}

/* --- on-demand regions --- */

#define ODP_REGIONS 1000

/* Many at a time: one registration is hardly longer than reading the clock twice. */
static double odp_reg_ns(void *at, size_t bytes)
{
	struct ibv_mr *mr[ODP_REGIONS];
	uint64_t begin = now_ns(), end;

	for (int i = 0; i < ODP_REGIONS; i++)
		mr[i] = reg(at, bytes, LOCAL | ODP);
	end = now_ns();
	for (int i = 0; i < ODP_REGIONS; i++)
		dereg(mr[i]);
	return (double)(end - begin) / ODP_REGIONS;
}

static void on_demand(void)
{
	struct series small = {0}, huge = {0}, ratio = {0};
	void *at = map(HUGE_RANGE, PROT_NONE, MAP_NORESERVE);

	/* The first on-demand region of a process may set up what all of them share. */
	odp_reg_ns(at, PAGE);
	for (int i = 0; i < BENCH_RUNS; i++) {
		double few = odp_reg_ns(at, PAGE), lots = odp_reg_ns(at, HUGE_RANGE);

		series_add(&small, few);
		series_add(&huge, lots);
		series_add(&ratio, lots / few);
	}
	munmap(at, HUGE_RANGE);
	series_print(&small, "odp_reg_ns", "4KiB");
	series_print(&huge, "odp_reg_ns", "1TiB");
	series_print(&ratio, "odp_reg_1TiB/4KiB", "1TiB");
}

int main(void)
{
	struct ibv_context *ctx;

	time_limit(600);
	ctx = node_open_device();
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		DIE("ibv_alloc_pd: errno %d", errno);
	large_region();
	many_regions();
	on_demand();
	if (ibv_dealloc_pd(pd) || ibv_close_device(ctx))
		DIE("closing: errno %d", errno);
	return 0;
}
