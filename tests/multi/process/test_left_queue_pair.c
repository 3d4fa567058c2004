/* SPDX-License-Identifier: MIT */
/*
 * A program closes its device without having destroyed a queue pair whose requests wait. Another of
 * its threads removes, meanwhile, what they wait for: it posts receives to the peer, which is on
 * another context of the same process. Nothing of the closed context is used any more.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/side.h"
#include "lib/to_rts.h"

#define ROUNDS (TEST_SANITIZED ? 20 : 60)
#define SENDS  8u
#define BYTES  64u

/* One end; the buffer is for both. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
};

static struct end left[ROUNDS]; /* a leak checker finds what is left here */
static struct end receiver;
static uint8_t buffer[4096];
static _Atomic bool over;

static void open_end(struct end *e)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1};

	e->ctx = node_open_device();
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 64, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = e->cq;
	init.cap = (struct ibv_qp_cap){SENDS, SENDS, 1, 1, 0};
	e->qp = ibv_create_qp(e->pd, &init);
	NEED(e->pd && e->cq && e->mr && e->qp);
}

static void connect_to(const struct end *e, const struct end *peer)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	NEED(ibv_query_gid(e->ctx, 1, 0, &gid) == 0);
	attr = connect_attr(peer->qp->qp_num, &gid);
	attr.rnr_retry = 7;
	attr.min_rnr_timer = 1;
	NEED(connect_qp(e->qp, attr) == 0);
}

/* They wait, since there is no receive. */
static void send_all(const struct end *sender)
{
	struct ibv_sge sge = {(uintptr_t)buffer, BYTES, sender->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	for (unsigned int i = 0; i < SENDS; i++)
		EXPECT(ibv_post_send(sender->qp, &wr, &bad) == 0, "ibv_post_send");
}

/* One after the other, so that those behind it wait anew. */
static void *receive_until_over(void *arg)
{
	struct ibv_sge sge = {(uintptr_t)buffer, BYTES, receiver.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	while (!atomic_load(&over)) {
		(void)ibv_post_recv(receiver.qp, &wr, &bad);
		(void)ibv_poll_cq(receiver.cq, 1, &wc);
	}
	return NULL;
}

static void close_receiver(void)
{
	EXPECT(ibv_destroy_qp(receiver.qp) == 0 && ibv_dereg_mr(receiver.mr) == 0 &&
		       ibv_destroy_cq(receiver.cq) == 0 && ibv_dealloc_pd(receiver.pd) == 0 &&
		       ibv_close_device(receiver.ctx) == 0,
	       "the receiver");
}

static void leave_while_it_is_executed(struct end *sender)
{
	pthread_t thread;

	open_end(sender);
	open_end(&receiver);
	connect_to(sender, &receiver);
	connect_to(&receiver, sender);
	send_all(sender);
	atomic_store(&over, false);
	NEED(pthread_create(&thread, NULL, receive_until_over, NULL) == 0);
	EXPECT(ibv_close_device(sender->ctx) == 0, "ibv_close_device");
	atomic_store(&over, true);
	NEED(pthread_join(thread, NULL) == 0);
	close_receiver();
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 100);
	for (int i = 0; i < ROUNDS; i++) {
		row("round %d", i);
		leave_while_it_is_executed(&left[i]);
	}
	return sandbox_end();
}
