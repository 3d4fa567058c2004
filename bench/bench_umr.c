/* SPDX-License-Identifier: MIT */
/*
 * What a UMR key saves: scattered pieces of memory are written to another process by one RDMA
 * WRITE. Compared with one WRITE per piece, and with the same bytes in one piece. Also measures
 * filling the key.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/side.h"
#include "measure.h"

#define PIECES	 4096u
#define EACH	 16u
#define STRIDE	 64u
#define AT	 0x100000u /* in both arenas */
#define PATIENCE 60000u
#define BATCH	 16 /* requests per post */

static struct side a, b;
static struct node *n;
static struct ibv_mr *key;
static struct ibv_exp_mkey_list_container *container;

static void wait_for(int count)
{
	struct ibv_wc wc[BATCH];

	if (node_poll(n, 0, count, PATIENCE, wc) != count || wc[count - 1].status != IBV_WC_SUCCESS)
		DIE("no success");
}

static double fill_us(void)
{
	static struct ibv_exp_mem_region regions[PIECES];
	struct ibv_exp_send_wr wr, *bad;
	uint64_t begin;

	for (uint32_t i = 0; i < PIECES; i++)
		regions[i] = (struct ibv_exp_mem_region){(uintptr_t)n->arena + AT + i * STRIDE,
							 n->mr[KEY_FULL], EACH};
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.ext_op.umr.memory_objects = container;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.num_mrs = PIECES;
	wr.ext_op.umr.mem_list.mem_reg_list = regions;
	begin = now_ns();
	if (ibv_exp_post_send(n->qp[0], &wr, &bad))
		DIE("ibv_exp_post_send: errno %d", errno);
	wait_for(1);
	return (double)(now_ns() - begin) / 1000;
}

static struct node_send write_of(uint64_t addr, uint32_t lkey, uint32_t bytes, uint32_t to)
{
	return (struct node_send){.opcode = IBV_WR_RDMA_WRITE,
				  .flags = IBV_SEND_SIGNALED,
				  .remote_addr = b.info.base[KEY_FULL] + AT + to,
				  .rkey = b.info.key[KEY_FULL],
				  .num_sge = 1,
				  .sge = {{addr, bytes, lkey}}};
}

static double one_us(uint64_t addr, uint32_t lkey)
{
	struct node_send s = write_of(addr, lkey, PIECES * EACH, 0);
	uint64_t begin = now_ns();

	if (node_post_send(n, 0, &s, 1).ret)
		DIE("ibv_post_send");
	wait_for(1);
	return (double)(now_ns() - begin) / 1000;
}

static double each_us(void)
{
	static struct node_send s[BATCH];
	uint64_t begin = now_ns();

	for (uint32_t i = 0; i < PIECES; i += BATCH) {
		for (uint32_t k = 0; k < BATCH; k++)
			s[k] = write_of((uintptr_t)n->arena + AT + (i + k) * STRIDE,
					n->mr[KEY_FULL]->lkey, EACH, (i + k) * EACH);
		if (node_post_send(n, 0, s, BATCH).ret)
			DIE("ibv_post_send");
		wait_for(BATCH);
	}
	return (double)(now_ns() - begin) / 1000;
}

static void measure(void)
{
	struct series fill = {0}, through = {0}, each = {0}, whole = {0}, ratio = {0};

	for (int i = 0; i < BENCH_RUNS; i++) {
		double key_us, pieces_us;

		series_add(&fill, fill_us());
		key_us = one_us(0, key->lkey);
		pieces_us = each_us();
		series_add(&through, key_us);
		series_add(&each, pieces_us);
		series_add(&whole, one_us((uintptr_t)n->arena + AT, n->mr[KEY_FULL]->lkey));
		series_add(&ratio, key_us / pieces_us);
	}
	series_print(&fill, "umr_fill_us", "4096");
	series_print(&through, "umr_write_us", "4096x16B");
	series_print(&each, "write_each_us", "4096x16B");
	series_print(&whole, "write_whole_us", "64KiB");
	series_print(&ratio, "umr_write/each", "4096x16B");
}

static void open_objects(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_exp_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = spec.cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.pd = n->pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
	};
	struct ibv_exp_create_mr_in in = {
		.pd = n->pd,
		.attr = {.max_klm_list_size = PIECES, .create_flags = IBV_EXP_MR_INDIRECT_KLMS},
	};
	struct ibv_exp_mkey_list_container_attr list = {.pd = n->pd, .max_klm_list_size = PIECES};

	n->qp[0] = ibv_exp_create_qp(n->ctx, &init);
	key = ibv_exp_create_mr(&in);
	container = ibv_exp_alloc_mkey_list_memory(&list);
	if (!n->qp[0] || !key || !container || side_create_qp(&b, 0, &spec, NULL))
		DIE("objects: errno %d", errno);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(600);
	side_open(&a, NULL);
	side_start(&b);
	n = a.node;
	open_objects();
	measure();
	if (ibv_exp_dealloc_mkey_list_memory(container) || ibv_dereg_mr(key))
		DIE("closing: errno %d", errno);
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
	side_stop(&a);
	return failures() ? 1 : 0;
}
