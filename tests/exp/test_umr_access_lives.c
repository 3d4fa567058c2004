/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, keys that change: they are filled again, invalidated and deregistered, as
 * are the regions behind them; and requests find the key as the one before them left it, whoever
 * executes them.
 */
#include <errno.h>
#include <string.h>

#include "lib/proc_status.h"
#include "umr_access_fixture.h"

static uint8_t bytes[KEY_BYTES];

/* --- the life of a key and of what is behind it ---------------------------------- */

static void life_rows(void)
{
	struct list l = around(&leaf[LEAF_PLAIN]);
	struct made key, other, now;
	uint32_t rkey;

	key = make(&l);
	row("a key that is invalidated");
	need_invalidate(key.mr);
	expect_accesses(&key, 1, 100, 0);
	row("and again");
	need_invalidate(key.mr);
	expect_accesses(&key, 1, 100, 0);
	row("filled with something else");
	l = list_of(&(struct element){&leaf[LEAF_IMPLICIT], 4000, 200, 0}, 1);
	l.base = 0;
	other = make(&l);
	need_fill(key.mr, &l);
	now = like(&other, key.mr);
	expect_accesses(&now, 1, 100, ALL);
	row("beyond its end, and before its beginning");
	now.base = 152;
	expect_accesses(&now, 0, 49, R_ATOMIC); /* whose word is inside */
	now.base = (uint64_t)-1;
	expect_accesses(&now, 0, 50, R_ATOMIC);
	unmake(&other);
	row("a key that is deregistered");
	rkey = key.mr->rkey;
	unmake(&key);
	for (int i = 0; i < 2; i++)
		EXPECT(remote(i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 1, rkey, 8) == REMOTE,
		       "reached");
}

static void change(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, int access)
{
	EXPECT(ibv_rereg_mr(mr, flags, pd, addr, addr ? LEAF_BYTES : 0, access) == 0,
	       "ibv_rereg_mr: errno %d", errno);
}

/* The region under a key is re-registered; the key is left as it is. */
static void rereg_rows(void)
{
	struct ibv_mr *mr =
		need(ibv_reg_mr(n->pd, plain_memory(), LEAF_BYTES, IBV_ACCESS_LOCAL_WRITE));
	struct made m = like(&leaf[LEAF_PLAIN], mr);
	struct list l = around(&m);
	struct made key = make(&l);
	uint8_t *elsewhere = n->arena + 0x600000;

	row("a region re-registered: in another domain");
	change(mr, IBV_REREG_MR_CHANGE_PD, n->other_pd, NULL, 0);
	expect_accesses(&key, PIECE, 100, 0);
	row("a region re-registered: back in its domain");
	change(mr, IBV_REREG_MR_CHANGE_PD, n->pd, NULL, 0);
	expect_accesses(&key, PIECE, 100, ALL);
	row("a region re-registered: read-only");
	change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0);
	expect_accesses(&key, PIECE, 100, READS);
	row("a region re-registered: elsewhere");
	change(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, elsewhere,
	       IBV_ACCESS_LOCAL_WRITE);
	expect_accesses(&key, PIECE, 100, 0);
	row("a region re-registered: back in its place");
	change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, plain_memory(), 0);
	expect_accesses(&key, PIECE, 100, ALL);
	unmake(&key);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* --- order of requests ----------------------------------------------------------- */

/* In one list: a key is filled and used, filled otherwise and used, and invalidated. */
static void order_row(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 600, 0}, 1);
	struct made x = make(&l), y;
	struct ibv_sge sge[2] = {{x.base, 600, x.mr->lkey}, {x.base, 600, x.mr->lkey}};
	struct ibv_exp_send_wr wr[6], *bad;
	struct ibv_exp_mem_region one = {leaf[LEAF_PLAIN].base, leaf[LEAF_PLAIN].mr, 600},
				  two = {leaf[LEAF_DEVICE].base + 9, leaf[LEAF_DEVICE].mr, 600};
	struct ibv_wc wc[6];

	row("a key is used between two fills of one list");
	l = list_of(&(struct element){&leaf[LEAF_DEVICE], 9, 600, 0}, 1);
	y = make(&l);
	memory_fill(seed += 16);
	for (int i = 0; i < 6; i++) {
		wr[i] = i == 4 ? invalidate_request(x.mr) : fill_request(x.mr, &l);
		wr[i].ext_op.umr.mem_list.mem_reg_list = i ? &two : &one;
		wr[i].next = i < 5 ? &wr[i + 1] : NULL;
	}
	for (int i = 1; i < 6; i += 2) {
		memset(&wr[i].ext_op, 0, sizeof(wr[i].ext_op));
		wr[i].exp_opcode = IBV_EXP_WR_RDMA_WRITE;
		wr[i].exp_send_flags = i == 3 ? IBV_EXP_SEND_SIGNALED : 0;
		wr[i].sg_list = &sge[i > 1];
		wr[i].num_sge = 1;
		wr[i].wr.rdma.remote_addr = b.info.base[KEY_FULL] + AT + (i > 1 ? 600 : 0);
		wr[i].wr.rdma.rkey = b.info.key[KEY_FULL];
		wr[i].wr_id = (uint64_t)i;
	}
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0, "refused");
	EXPECT(node_poll(n, 0, 2, PATIENCE, wc) == 2, "number of completions");
	EXPECT(wc[0].wr_id == 3 && wc[0].status == GOOD, "the WRITE behind the second fill");
	EXPECT(wc[1].wr_id == 5 && wc[1].status == LOCAL, "the WRITE behind the invalidation");
	probe_reconnect(&b, &a, 0);
	model_read(&x, 0, 600, bytes);
	model_read(&y, 0, 600, bytes + 600);
	expect_there(AT, bytes, 1200);
	unmake(&x);
	unmake(&y);
}

/*
 * Requests wait behind a message that finds no receive request; the peer that posts one executes
 * them all, the fill among them.
 */
static void executed_by_peer_row(bool inlined)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 64, 0}, 1);
	struct made key = make(&l);
	struct node_send send = {
		.opcode = IBV_WR_SEND, .num_sge = 1, .sge = {side_sge(&a, KEY_FULL, HERE, 8)}};
	struct node_send use = {.opcode = IBV_WR_RDMA_WRITE,
				.wr_id = 9,
				.flags = IBV_SEND_SIGNALED,
				.num_sge = 1,
				.sge = {{key.base, 600, key.mr->lkey}},
				.remote_addr = b.info.base[KEY_FULL] + AT,
				.rkey = b.info.key[KEY_FULL]};
	struct ibv_exp_send_wr fill, *bad;
	struct made now;
	struct ibv_wc wc;

	row("a fill that waited, %s", inlined ? "inline" : "not inline");
	memory_fill(seed += 16);
	l = list_of(&(struct element){&leaf[LEAF_IOVA], 9, 600, 0}, 1);
	l.inlined = inlined;
	now = make(&l);
	fill = fill_request(key.mr, &l);
	EXPECT(node_post_send(n, 0, &send, 1).ret == 0, "ibv_post_send");
	EXPECT(ibv_exp_post_send(n->qp[0], &fill, &bad) == 0, "ibv_exp_post_send");
	EXPECT(node_post_send(n, 0, &use, 1).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 1, 0, &wc) == 0, "it did not wait");
	side_recv_one(&b, 0, 1, PROBE_AT, 8);
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.wr_id == 9, "no completion");
	expect_status(wc.status, GOOD, "the WRITE");
	expect_status(received(&b, 8), GOOD, "the message");
	model_read(&now, 0, 600, bytes);
	expect_there(AT, bytes, 600);
	unmake(&now);
	unmake(&key);
}

/* A key of another domain than the queue pair's cannot be filled. */
static void domain_row(void)
{
	struct ibv_exp_create_mr_in in = {
		.pd = n->other_pd,
		.attr = {.max_klm_list_size = 4,
			 .create_flags = INDIRECT,
			 .exp_access_flags = RIGHTS},
	};
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1000, 0}, 1);
	struct ibv_mr *mr = need(ibv_exp_create_mr(&in));
	struct ibv_exp_send_wr wr = fill_request(mr, &l);

	row("a key of another domain");
	expect_status(run_request(&wr), IBV_WC_MW_BIND_ERR, "UMR_FILL");
	wr = invalidate_request(mr);
	expect_status(run_request(&wr), IBV_WC_MW_BIND_ERR, "UMR_INVALIDATE");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* What one took, the next one has: they are of 2 MiB each. */
static void containers_row(void)
{
	struct ibv_exp_mkey_list_container_attr attr = {.pd = n->pd, .max_klm_list_size = 65536};
	size_t before = status_kb("RssShmem:");

	row("containers one after the other");
	for (int i = 0; i < 20; i++) {
		struct ibv_exp_mkey_list_container *c = ibv_exp_alloc_mkey_list_memory(&attr);

		EXPECT(c && ibv_exp_dealloc_mkey_list_memory(c) == 0, "number %d", i);
	}
	EXPECT(status_kb("RssShmem:") < before + (16u << 10), "%zu KiB more",
	       status_kb("RssShmem:") - before);
}

static void run(void)
{
	life_rows();
	rereg_rows();
	order_row();
	executed_by_peer_row(true);
	executed_by_peer_row(false);
	domain_row();
	containers_row();
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
