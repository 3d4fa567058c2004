/* SPDX-License-Identifier: MIT */
/* User-mode registration, how far it goes: keys of keys, circles of them, the longest list, the
 * most bytes.
 */
#include <stdlib.h>

#include "umr_access_fixture.h"

/* --- keys of keys ---------------------------------------------------------------- */

static void depth_rows(void)
{
	enum { LEVELS = 5 };
	struct element e = {&leaf[LEAF_PLAIN], 0, 4000, 0};
	struct list l = list_of(&e, 1);
	struct made level[LEVELS];

	for (int i = 0; i < LEVELS; i++) {
		level[i] = make(&l);
		e = (struct element){&level[i], 8, level[i].bytes - 8, 0};
		l = list_of(&e, 1);
		row("keys of keys, %d deep", i + 1);
		expect_accesses(&level[i], 3, 100, i < 4 ? ALL : 0);
	}
	row("a key on the way is filled with less depth");
	e = (struct element){&leaf[LEAF_PLAIN], 24, 4000 - 24, 0};
	l = list_of(&e, 1);
	need_fill(level[3].mr, &l);
	expect_accesses(&level[4], 3, 100, ALL);
	for (int i = 0; i < LEVELS; i++)
		unmake(&level[i]);
}

/* Circles are made by filling a key with what leads to it. */
static void circle_rows(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1000, 0}, 1);
	struct made x = make(&l), y, z;

	row("a key of itself");
	l = list_of(&(struct element){&x, 0, 1000, 0}, 1);
	need_fill(x.mr, &l);
	expect_accesses(&x, 3, 100, 0);
	row("two keys of each other");
	y = make(&l);
	l = list_of(&(struct element){&y, 0, 1000, 0}, 1);
	need_fill(x.mr, &l);
	expect_accesses(&x, 3, 100, 0);
	expect_accesses(&y, 3, 100, 0);
	row("many elements that all lead back");
	l.count = 20;
	for (uint32_t i = 0; i < l.count; i++)
		l.e[i] = (struct element){&x, 0, 1000, 0};
	z = make(&l);
	for (uint32_t i = 0; i < l.count; i++)
		l.e[i].of = i % 2 ? &z : &y;
	need_fill(z.mr, &l);
	expect_accesses(&z, 3, 100, 0);
	expect_accesses(&z, 1003, 100, 0);
	unmake(&x);
	unmake(&y);
	unmake(&z);
}

/* --- sizes ----------------------------------------------------------------------- */

/* A list as long as it may be: the bytes of a region from the last to the first. */
static void longest_row(void)
{
	struct ibv_exp_mem_region *regions = calloc(LEAF_BYTES, sizeof(*regions));
	struct ibv_mr *mr = create_key(LEAF_BYTES, INDIRECT);
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1, 0}, 1);
	uint8_t *reversed = malloc(LEAF_BYTES);
	struct ibv_exp_send_wr wr;

	row("a list of %u single bytes", LEAF_BYTES);
	l.inlined = false;
	wr = fill_request(mr, &l);
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		regions[i] = (struct ibv_exp_mem_region){leaf[LEAF_PLAIN].base + LEAF_BYTES - 1 - i,
							 leaf[LEAF_PLAIN].mr, 1};
	wr.ext_op.umr.mem_list.mem_reg_list = regions;
	wr.ext_op.umr.num_mrs = LEAF_BYTES;
	expect_status(run_request(&wr), GOOD, "UMR_FILL");
	memory_fill(seed += 16);
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		reversed[i] = model.of[LEAF_PLAIN][LEAF_BYTES - 1 - i];
	expect_status(remote(IBV_WR_RDMA_READ, BASE, mr->rkey, LEAF_BYTES), GOOD, "READ");
	expect_there(AT, reversed, LEAF_BYTES);
	memory_fill(seed += 16);
	expect_status(remote(IBV_WR_RDMA_WRITE, BASE, mr->rkey, LEAF_BYTES), GOOD, "WRITE");
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		model.of[LEAF_PLAIN][LEAF_BYTES - 1 - i] = reversed[i];
	memory_expect();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	free(regions);
	free(reversed);
}

/* Keys of more bytes than there is memory. */
static void wide_rows(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_NULL], 5, 8, 0}, 1);
	struct ibv_mr *mr = create_key(1, INDIRECT);
	struct ibv_exp_send_wr wr;
	const uint64_t base = UINT64_MAX - (1ull << 62) + 1, rounds = 1ull << 59;
	static const uint8_t zeros[64];

	row("a key of 2^62 bytes up to the last address");
	l.type = IBV_EXP_UMR_REPEAT;
	l.base = base;
	wr = fill_request(mr, &l);
	wr.ext_op.umr.mem_list.rb.repeat_count[0] = rounds;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list[0].stride[0] = 24;
	expect_status(run_request(&wr), GOOD, "UMR_FILL");
	for (int i = 0; i < 3; i++) {
		static const uint64_t at[] = {0, 1ull << 61, (1ull << 62) - 64};

		side_fill(&b, AT, 64, ++seed, 0);
		expect_status(remote(IBV_WR_RDMA_READ, base + at[i], mr->rkey, 64), GOOD, "READ");
		expect_there(AT, zeros, 64);
	}
	expect_status(remote(IBV_WR_RDMA_READ, UINT64_MAX - 62, mr->rkey, 64), REMOTE,
		      "READ beyond");
	expect_status(remote(IBV_WR_RDMA_READ, base - 1, mr->rkey, 64), REMOTE, "READ before");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void run(void)
{
	depth_rows();
	circle_rows();
	longest_row();
	wide_rows();
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
