/* SPDX-License-Identifier: MIT */
/* Granting access by binding a window, of either type, compared with registering memory. */
#include <errno.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "measure.h"

#define PAGE   4096u
#define BINDS  2000
#define RIGHTS (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct end e;
static struct ibv_mr *mr;

static struct ibv_mw *alloc(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(e.pd, type);

	if (!mw)
		DIE("ibv_alloc_mw: errno %d", errno);
	return mw;
}

static struct ibv_mw_bind_info whole(void)
{
	return (struct ibv_mw_bind_info){
		.mr = mr, .addr = (uintptr_t)mr->addr, .length = PAGE, .mw_access_flags = RIGHTS};
}

static void bind_type_1(struct ibv_mw *mw)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = whole()};

	if (ibv_bind_mw(e.qp[0], mw, &bind))
		DIE("ibv_bind_mw: errno %d", errno);
	end_wait(&e);
}

/* A bound type 2 window is invalidated before the next bind, in the same post. */
static void bind_type_2(struct ibv_mw *mw, bool bound)
{
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = whole()}};
	struct ibv_send_wr invalidate = {
		.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey, .next = &bind};
	struct ibv_send_wr *bad;

	if (ibv_post_send(e.qp[0], bound ? &invalidate : &bind, &bad))
		DIE("ibv_post_send: errno %d", errno);
	end_wait(&e);
	mw->rkey = bind.bind_mw.rkey;
}

static double type_1_ns(struct ibv_mw *mw)
{
	int binds = bench_count(BINDS, 2);
	uint64_t begin = now_ns();

	for (int i = 0; i < binds; i++)
		bind_type_1(mw);
	return ns_each(begin, binds);
}

static double type_2_ns(struct ibv_mw *mw)
{
	int binds = bench_count(BINDS, 2);
	uint64_t begin = now_ns();

	for (int i = 0; i < binds; i++)
		bind_type_2(mw, true);
	return ns_each(begin, binds);
}

static double reg_ns(void)
{
	int regs = bench_count(BINDS, 2);
	uint64_t begin = now_ns();

	for (int i = 0; i < regs; i++)
		end_dereg(end_reg(&e, mr->addr, PAGE, RIGHTS | IBV_ACCESS_LOCAL_WRITE));
	return ns_each(begin, regs);
}

int main(void)
{
	void *at = bench_map(PAGE, PROT_READ | PROT_WRITE, MAP_POPULATE);
	struct series type_1 = {0}, type_2 = {0}, reg = {0}, ratio = {0};
	struct ibv_mw *mw[2];

	time_limit(600);
	end_open(&e);
	end_add_pairs(&e, 2, 16);
	mr = end_reg(&e, at, PAGE, END_RIGHTS);
	mw[0] = alloc(IBV_MW_TYPE_1);
	mw[1] = alloc(IBV_MW_TYPE_2);
	bind_type_2(mw[1], false);
	for (int i = 0; i < BENCH_RUNS; i++) {
		double one = type_1_ns(mw[0]), two = type_2_ns(mw[1]), region = reg_ns();

		series_add(&type_1, one);
		series_add(&type_2, two);
		series_add(&reg, region);
		series_add(&ratio, one / region);
	}
	series_print(&type_1, "bind_type_1_ns", "4KiB");
	series_print(&type_2, "inv_and_bind_type_2_ns", "4KiB");
	series_print(&reg, "reg_and_dereg_ns", "4KiB");
	series_print_most(&ratio, "bind_type_1/reg_and_dereg", "4KiB", 1);
	if (ibv_dealloc_mw(mw[0]) || ibv_dealloc_mw(mw[1]))
		DIE("ibv_dealloc_mw: errno %d", errno);
	end_dereg(mr);
	end_close(&e);
	munmap(at, PAGE);
	return 0;
}
