/* SPDX-License-Identifier: MIT */
/* What a null region saves: a large RDMA READ into it, compared with the same READ into memory. */
#include <errno.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#define BYTES (1u << 30)

static struct end e;

static struct ibv_mr *memory(uint32_t bytes)
{
	return end_reg(&e, bench_map(bytes, PROT_READ | PROT_WRITE, MAP_POPULATE), bytes,
		       END_RIGHTS);
}

static void release(struct ibv_mr *mr)
{
	void *at = mr->addr;
	size_t bytes = mr->length;

	end_dereg(mr);
	munmap(at, bytes);
}

static double read_us(const struct ibv_mr *from, uint32_t lkey, const void *to)
{
	const struct transfer t = {.opcode = IBV_WR_RDMA_READ,
				   .local = (uintptr_t)to,
				   .remote = (uintptr_t)from->addr,
				   .lkey = lkey,
				   .rkey = from->rkey,
				   .bytes = (uint32_t)from->length};
	uint64_t begin = now_ns();

	end_transfer(&e, e.qp[0], &t);
	return us_each(begin, 1);
}

static void measure(const struct ibv_mr *from, const struct ibv_mr *into, const struct ibv_mr *null)
{
	struct series dear = {0}, cheap = {0}, ratio = {0};

	for (int i = 0; i < BENCH_RUNS; i++) {
		double memory_us = read_us(from, into->lkey, into->addr);
		double null_us = read_us(from, null->lkey, NULL);

		series_add(&dear, memory_us);
		series_add(&cheap, null_us);
		series_add(&ratio, null_us / memory_us);
	}
	series_print(&dear, "read_memory_us", "1GiB");
	series_print(&cheap, "read_null_us", "1GiB");
	series_print_most(&ratio, "read_null/memory", "1GiB", 0.01);
}

int main(void)
{
	uint32_t bytes = (uint32_t)bench_bytes(BYTES, 65536);
	struct ibv_mr *from, *into, *null;

	time_limit(600);
	end_open(&e);
	end_add_pairs(&e, 2, 16);
	from = memory(bytes);
	into = memory(bytes);
	null = ibv_alloc_null_mr(e.pd);
	if (!null)
		DIE("ibv_alloc_null_mr: errno %d", errno);
	measure(from, into, null);
	end_dereg(null);
	release(into);
	release(from);
	end_close(&e);
	return 0;
}
