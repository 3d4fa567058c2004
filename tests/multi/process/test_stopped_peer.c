/* SPDX-License-Identifier: MIT */
/*
 * A peer is stopped (SIGSTOP, a debugger) in the middle of a message to a queue pair. Verbs of that
 * queue pair that cannot do without it fail in bounded time and change nothing; others go on. When
 * the peer goes on, so does the message.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/two_sides.h"
#include "lib/wait.h"

#define BYTES	 (48u << 20)
#define ROUNDS	 50
#define PATIENCE 30000u
#define BOUND_MS 8000u /* 2 s for each of two rights */
#define QUICK_MS 1900u /* no wait of 2 s */

static struct ibv_mr *buffer_of(struct node *n)
{
	void *at = aligned_alloc(4096, BYTES);
	struct ibv_mr *mr = at ? ibv_reg_mr(n->pd, at, BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;

	NEED(mr);
	return mr;
}

static int drop_buffer(struct ibv_mr *mr)
{
	void *at = mr->addr;
	int err = ibv_dereg_mr(mr);

	free(at);
	return err;
}

/* In the peer: one long message. */
static uint64_t send_long(struct node *n, const struct side_job *job)
{
	struct ibv_mr *mr = buffer_of(n);
	struct ibv_sge sge = {(uintptr_t)mr->addr, BYTES, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	pattern_fill(mr->addr, BYTES, job->arg[0], 0);
	side_note();
	if (ibv_post_send(n->qp[0], &wr, &bad) == 0)
		while (ibv_poll_cq(n->qp[0]->send_cq, 1, &wc) == 0)
			;
	drop_buffer(mr);
	return wc.status;
}

static void receive_into(const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	NEED(ibv_post_recv(a.node->qp[0], &wr, &bad) == 0);
}

static int query(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(a.node->qp[0], &attr, IBV_QP_STATE, &init);
}

static int modify(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return ibv_modify_qp(a.node->qp[0], &attr, IBV_QP_STATE);
}

static int destroy(void)
{
	return ibv_destroy_qp(a.node->qp[0]);
}

static void expect_busy(int (*verb)(void), const char *name)
{
	uint64_t from = undisturbed_ms(), took;

	EXPECT(verb() == EBUSY, "%s", name);
	took = undisturbed_ms() - from;
	EXPECT(took < BOUND_MS, "%s took %lu ms", name, (unsigned long)took);
}

/* Another queue pair of this process, with CQs of its own. */
static void others_go_on(void)
{
	struct ibv_sge sge = {(uintptr_t)a.node->arena, 8, a.node->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)a.node->arena + 64,
					     a.node->mr[KEY_FULL]->rkey}},
			   *bad;
	uint64_t from = undisturbed_ms(), took;
	struct ibv_wc wc[1];

	EXPECT(ibv_post_send(a.node->qp[1], &wr, &bad) == 0, "posting");
	EXPECT(side_poll(&a, 2, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "WRITE");
	took = undisturbed_ms() - from;
	EXPECT(took < QUICK_MS, "%lu ms", (unsigned long)took);
}

/* Return: false: the peer was stopped before or behind the message. */
static bool one_round(uint64_t seed)
{
	struct ibv_mr *mr = buffer_of(a.node);
	struct ibv_wc wc[1];
	bool hit;

	receive_into(mr);
	side_begin(&b, &(struct side_job){{seed}});
	side_await(&b);
	let_go_on((unsigned int)rand() % 8000);
	kill(b.pid, SIGSTOP);
	hit = query() == EBUSY;
	if (hit) {
		expect_busy(modify, "ibv_modify_qp");
		expect_busy(destroy, "ibv_destroy_qp");
		others_go_on();
	}
	kill(b.pid, SIGCONT);
	EXPECT(side_end(&b) == IBV_WC_SUCCESS, "the sender");
	EXPECT(side_poll(&a, 1, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS &&
		       wc[0].byte_len == BYTES,
	       "the receiver");
	EXPECT(pattern_check(mr->addr, BYTES, seed, 0) == -1, "bytes");
	EXPECT(drop_buffer(mr) == 0, "ibv_dereg_mr");
	return hit;
}

static void run(void)
{
	struct node_qp_spec apart = spec_default();
	bool hit = false;

	row("stopped in the middle of a SEND");
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	NEED(side_create_cq(&a, 2, 16, false) == 0);
	apart.send_cq = apart.recv_cq = 2;
	pair_create(&a, 1, &a, 1, &apart);
	pair_connect(&a, 1, NULL, &a, 1, NULL);
	for (uint64_t i = 0; i < ROUNDS && !hit; i++)
		hit = one_round(i);
	EXPECT(hit, "never in the middle");
	EXPECT(query() == 0, "ibv_query_qp");
	EXPECT(side_destroy_qp(&a, 1) == 0, "ibv_destroy_qp");
	EXPECT(side_destroy_cq(&a, 2) == 0, "ibv_destroy_cq");
	pair_destroy(&a, 0, &b, 0);
}

int main(int argc, char **argv)
{
	side_work = send_long;
	two_sides_open(argc, argv);
	run();
	return two_sides_close();
}
