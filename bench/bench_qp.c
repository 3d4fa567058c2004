/* SPDX-License-Identifier: MIT */
/*
 * Does anything get slower with the number of connected queue pairs? Measures posting and
 * completing a small RDMA WRITE on one of them, and creating, connecting and destroying one.
 */
#include <limits.h>
#include <malloc.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#define BYTES	  8u
#define DEPTH	  16
#define TRANSFERS 20000
#define MADE	  200

static const struct {
	int qps;
	const char *name;
} step[] = {{2, "2"}, {100, "100"}, {10000, "10000"}};
#define STEPS COUNT_OF(step)

enum figure { POST, CREATE, CONNECT, DESTROY, FIGURES };
static const struct {
	const char *time, *flat; /* @flat: the ratio to the fewest queue pairs of the same run */
	double most;
} figure[FIGURES] = {
	[POST] = {"qp_write_ns", "qp_write_many/two", 1.2},
	[CREATE] = {"qp_create_ns", "qp_create_many/two", 1.3},
	[CONNECT] = {"qp_connect_ns", "qp_connect_many/two", 1.3},
	[DESTROY] = {"qp_destroy_ns", "qp_destroy_many/two", 1.3},
};

static struct end e;
static struct ibv_mr *mr;
static struct series times[STEPS][FIGURES], flat[STEPS][FIGURES], all;

static struct transfer write_of(void)
{
	return (struct transfer){.opcode = IBV_WR_RDMA_WRITE,
				 .local = (uintptr_t)mr->addr,
				 .remote = (uintptr_t)mr->addr + 2048,
				 .lkey = mr->lkey,
				 .rkey = mr->rkey,
				 .bytes = BYTES};
}

/* Each queue pair in turn, so that none is cached. */
static double post_all_ns(void)
{
	const struct transfer t = write_of();
	uint64_t begin = now_ns();

	for (int i = 0; i < e.qps; i++)
		end_transfer(&e, e.qp[i], &t);
	return ns_each(begin, e.qps);
}

/* Move one queue pair through INIT, RTR and RTS. Each is its neighbour's destination. */
static double connect_ns(int from)
{
	uint64_t begin = now_ns();

	for (int i = from; i < e.qps; i++)
		end_connect(e.qp[i], e.qp[i ^ 1]->qp_num, &e.gid);
	return ns_each(begin, e.qps - from);
}

static void measure(double ns[FIGURES])
{
	const struct transfer t = write_of();
	int from = e.qps, made = bench_count(MADE, 2);
	uint64_t begin = now_ns();

	for (int i = 0; i < made; i++)
		end_add_qp(&e, DEPTH);
	ns[CREATE] = ns_each(begin, made);
	ns[CONNECT] = connect_ns(from);
	begin = now_ns();
	for (int i = 0; i < made; i++)
		end_drop_qp(&e);
	ns[DESTROY] = ns_each(begin, made);
	ns[POST] = end_transfer_ns(&e, e.qp[0], &t, bench_count(TRANSFERS, 10));
}

/* One run, from few to many. */
static void run(void)
{
	double ns[STEPS][FIGURES];

	for (size_t s = 0; s < STEPS; s++) {
		end_add_pairs(&e, bench_count(step[s].qps, 2 * (int)s + 2), DEPTH);
		measure(ns[s]);
		for (int f = 0; f < FIGURES; f++) {
			series_add(&times[s][f], ns[s][f]);
			series_add(&flat[s][f], ns[s][f] / ns[0][f]);
		}
	}
	series_add(&all, post_all_ns());
	while (e.qps)
		end_drop_qp(&e);
}

int main(void)
{
	void *at = bench_map(4096, PROT_READ | PROT_WRITE, MAP_POPULATE);

	time_limit(600);
	mallopt(M_TRIM_THRESHOLD,
		INT_MAX); /* keeps the C library from returning memory while we measure */
	end_open(&e);
	mr = end_reg(&e, at, 4096, END_RIGHTS);
	for (int i = 0; i < BENCH_RUNS; i++)
		run();
	for (int f = 0; f < FIGURES; f++) {
		for (size_t s = 0; s < STEPS; s++)
			series_print(&times[s][f], figure[f].time, step[s].name);
		for (size_t s = 1; s < STEPS; s++)
			series_print_most(&flat[s][f], figure[f].flat, step[s].name,
					  figure[f].most);
	}
	series_print(&all, "qp_write_each_in_turn_ns", step[STEPS - 1].name);
	end_dereg(mr);
	end_close(&e);
	munmap(at, 4096);
	return 0;
}
