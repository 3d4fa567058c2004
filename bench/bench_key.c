/* SPDX-License-Identifier: MIT */
/*
 * Does anything get slower with the number of regions? Measures a small RDMA WRITE and READ within
 * one process, where nothing else costs much, and the registration and deregistration of a page.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#define PAGE	  4096u
#define BYTES	  8u
#define TRANSFERS 20000
#define REGIONS	  1000

/* Number of regions beside the one in use. */
static const struct {
	int regions;
	const char *name;
} step[] = {{1, "1"}, {1000, "1000"}, {100000, "100000"}, {1000000, "1000000"}};
#define STEPS COUNT_OF(step)

enum figure { WRITE, READ, ANY, REG, DEREG, FIGURES };
static const struct {
	const char *time, *flat; /* @flat: the ratio to the fewest regions of the same run */
	double most;		 /* 0: no bound */
} figure[FIGURES] = {
	[WRITE] = {"key_write_ns", "key_write_many/one", 1.2},
	[READ] = {"key_read_ns", "key_read_many/one", 1.2},
	[ANY] = {"key_any_write_ns", NULL, 0},
	[REG] = {"key_reg_ns", "key_reg_many/one", 1.3},
	[DEREG] = {"key_dereg_ns", "key_dereg_many/one", 1.3},
};

static struct end e;
static struct series times[STEPS][FIGURES], flat[STEPS][FIGURES];

static struct transfer transfer_by(enum ibv_wr_opcode opcode, const struct ibv_mr *mr)
{
	return (struct transfer){.opcode = opcode,
				 .local = (uintptr_t)mr->addr,
				 .remote = (uintptr_t)mr->addr + PAGE / 2,
				 .lkey = mr->lkey,
				 .rkey = mr->rkey,
				 .bytes = BYTES};
}

static double transfer_ns(enum ibv_wr_opcode opcode, const struct ibv_mr *mr)
{
	const struct transfer t = transfer_by(opcode, mr);

	return end_transfer_ns(&e, e.qp[0], &t, bench_count(TRANSFERS, 10));
}

/*
 * Uses another key each time, so that no key is cached if there are many. The keys are looked up
 * beforehand, because the program's own search is not what we measure.
 */
static double any_ns(struct ibv_mr **mr, int there)
{
	static struct transfer t[TRANSFERS / 4];
	int transfers = bench_count(TRANSFERS / 4, 10);
	uint32_t next = 1;
	uint64_t begin;

	for (int i = 0; i < transfers; i++) {
		t[i] = transfer_by(IBV_WR_RDMA_WRITE, mr[(next >> 8) % (uint32_t)there]);
		next = next * 1664525u + 1013904223u;
	}
	begin = now_ns();
	for (int i = 0; i < transfers; i++)
		end_transfer(&e, e.qp[0], &t[i]);
	return ns_each(begin, transfers);
}

static void reg_dereg_ns(void *at, double *reg, double *dereg)
{
	struct ibv_mr *mr[REGIONS];
	uint64_t begin = now_ns();

	for (int i = 0; i < REGIONS; i++)
		mr[i] = end_reg(&e, at, PAGE, END_RIGHTS);
	*reg = ns_each(begin, REGIONS);
	begin = now_ns();
	for (int i = 0; i < REGIONS; i++)
		end_dereg(mr[i]);
	*dereg = ns_each(begin, REGIONS);
}

/* One run, from few regions to many. @mr has room for all. */
static void run(struct ibv_mr **mr, void *at)
{
	double ns[STEPS][FIGURES];
	int there = 0;

	for (size_t s = 0; s < STEPS; s++) {
		while (there < bench_count(step[s].regions, (int)s + 1))
			mr[there++] = end_reg(&e, at, PAGE, END_RIGHTS);
		reg_dereg_ns(at, &ns[s][REG], &ns[s][DEREG]);
		ns[s][WRITE] = transfer_ns(IBV_WR_RDMA_WRITE, mr[there - 1]);
		ns[s][READ] = transfer_ns(IBV_WR_RDMA_READ, mr[there - 1]);
		ns[s][ANY] = any_ns(mr, there);
		for (int f = 0; f < FIGURES; f++) {
			series_add(&times[s][f], ns[s][f]);
			series_add(&flat[s][f], ns[s][f] / ns[0][f]);
		}
	}
	while (there)
		end_dereg(mr[--there]);
}

int main(void)
{
	struct ibv_mr **mr = calloc((size_t)step[STEPS - 1].regions, sizeof(struct ibv_mr *));
	void *at = bench_map(PAGE, PROT_READ | PROT_WRITE, MAP_POPULATE);

	time_limit(600);
	if (!mr)
		DIE("no memory");
	end_open(&e);
	end_add_pairs(&e, 2, 16);
	for (int i = 0; i < BENCH_RUNS; i++)
		run(mr, at);
	for (int f = 0; f < FIGURES; f++) {
		for (size_t s = 0; s < STEPS; s++)
			series_print(&times[s][f], figure[f].time, step[s].name);
		for (size_t s = 1; s < STEPS && figure[f].most; s++)
			series_print_most(&flat[s][f], figure[f].flat, step[s].name,
					  figure[f].most);
	}
	end_close(&e);
	munmap(at, PAGE);
	free(mr);
	return 0;
}
