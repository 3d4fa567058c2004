/* SPDX-License-Identifier: MIT */
/* What a null region saves: an RDMA READ of much into it, against the same into memory. */
#include <errno.h>
#include <sys/mman.h>

#include "lib/expect.h"
#include "lib/side.h"
#include "measure.h"

#define BYTES	 (1ul << 30)
#define PATIENCE 60000u /* milliseconds for one READ */

static struct side end;

static struct ibv_mr *memory(int access)
{
	void *at =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *mr = at == MAP_FAILED ? NULL : ibv_reg_mr(end.node->pd, at, BYTES, access);

	if (!mr)
		DIE("no region of %lu bytes: errno %d", BYTES, errno);
	return mr;
}

static void release(struct ibv_mr *mr)
{
	void *at = mr->addr;

	if (ibv_dereg_mr(mr))
		DIE("ibv_dereg_mr: errno %d", errno);
	munmap(at, BYTES);
}

static double read_us(const struct ibv_mr *from, uint32_t lkey, const void *to)
{
	struct node_send s = {.opcode = IBV_WR_RDMA_READ,
			      .flags = IBV_SEND_SIGNALED,
			      .remote_addr = (uintptr_t)from->addr,
			      .rkey = from->rkey,
			      .num_sge = 1,
			      .sge = {{.addr = (uintptr_t)to, .length = BYTES, .lkey = lkey}}};
	struct ibv_wc wc;
	uint64_t begin = now_ns();

	if (side_post_send(&end, 0, &s, 1).ret)
		DIE("ibv_post_send");
	if (side_poll(&end, 0, 1, PATIENCE, &wc) != 1)
		DIE("no completion");
	if (wc.status != IBV_WC_SUCCESS)
		DIE("READ: %s", ibv_wc_status_str(wc.status));
	return (double)(now_ns() - begin) / 1000;
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
	series_print(&ratio, "read_null/memory", "1GiB");
}

int main(int argc, char **argv)
{
	struct ibv_mr *from, *into, *null;

	side_agent_main(argc, argv);
	time_limit(600);
	side_open(&end, NULL);
	pair_create(&end, 0, &end, 1, NULL);
	pair_connect(&end, 0, NULL, &end, 1, NULL);
	from = memory(IBV_ACCESS_REMOTE_READ);
	into = memory(IBV_ACCESS_LOCAL_WRITE);
	null = ibv_alloc_null_mr(end.node->pd);
	if (!null)
		DIE("ibv_alloc_null_mr: errno %d", errno);
	measure(from, into, null);
	if (ibv_dereg_mr(null))
		DIE("ibv_dereg_mr: errno %d", errno);
	release(into);
	release(from);
	pair_destroy(&end, 0, &end, 1);
	side_stop(&end);
	return failures() ? 1 : 0;
}
