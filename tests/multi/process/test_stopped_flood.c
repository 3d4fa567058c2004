/* SPDX-License-Identifier: MIT */
/*
 * A peer is stopped (SIGSTOP, a debugger) again and again while it floods a queue pair: the other
 * queue pairs of the same CQ go on, whatever it was doing to the CQ. When it goes on, none of its
 * messages is lost, comes twice or comes too early, and the CQ can be resized.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/two_sides.h"
#include "lib/wait.h"

#define ROUNDS	 (TEST_SANITIZED ? 60 : 300)
#define BYTES	 8u
#define DEPTH	 200u
#define BOUND_MS (TEST_SANITIZED ? 3000u : 1900u) /* of one request: less than a wait of 2 s */
#define STOP_MS	 130u
#define LEFT_MS	 50u  /* then it has been left behind */
#define LARGE	 2000 /* the CQ holds less than that */
#define LARGER	 3000
#define RESIZES	 10 /* until it has succeeded */
#define PATIENCE 30000u

enum { FROM_PEER = 1, OWN };

/* In the peer. Each message carries its number. */
static uint64_t flood(struct node *n, const struct side_job *job)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint32_t sent = (uint32_t)job->arg[0];
	struct ibv_wc wc[16];
	int got;

	for (;;) {
		wr.imm_data = htonl(sent);
		sent += ibv_post_send(n->qp[0], &wr, &bad) == 0;
		while ((got = ibv_poll_cq(n->qp[0]->send_cq, 16, wc)) > 0)
			for (int i = 0; i < got; i++)
				if (wc[i].status)
					return wc[i].status;
	}
}

static void receive_more(unsigned int count)
{
	struct ibv_sge sge = {(uintptr_t)a.node->arena, BYTES, a.node->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.wr_id = FROM_PEER, .sg_list = &sge, .num_sge = 1}, *bad;

	for (unsigned int i = 0; i < count; i++)
		EXPECT(ibv_post_recv(a.node->qp[0], &wr, &bad) == 0, "ibv_post_recv");
}

static uint32_t received;

/* Return: was it an own request's? */
static bool one_completion(const struct ibv_wc *wc)
{
	EXPECT(wc->status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc->status));
	if (wc->wr_id == OWN)
		return true;
	EXPECT(ntohl(wc->imm_data) == received, "message %u instead of %u", ntohl(wc->imm_data),
	       received);
	received = ntohl(wc->imm_data) + 1;
	receive_more(1);
	return false;
}

/* A WRITE to itself, completed through the CQ that the peer floods. */
static uint64_t own_write_ms(void)
{
	struct ibv_sge sge = {(uintptr_t)a.node->arena, BYTES, a.node->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.wr_id = OWN,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)a.node->arena + 4096,
					     a.node->mr[KEY_FULL]->rkey}},
			   *bad;
	uint64_t from = undisturbed_ms();
	bool done = false;

	EXPECT(ibv_post_send(a.node->qp[1], &wr, &bad) == 0, "ibv_post_send");
	while (!done) {
		struct ibv_wc wc[32];
		int n = ibv_poll_cq(a.node->qp[0]->recv_cq, 32, wc);

		NEED(n >= 0);
		for (int i = 0; i < n; i++)
			done |= one_completion(&wc[i]);
	}
	return undisturbed_ms() - from;
}

/* Requests of its own for @us. Return: the longest */
static uint64_t work_for(uint64_t us)
{
	uint64_t until = now_ns() + us * 1000, longest = 0;

	while (now_ns() < until) {
		uint64_t ms = own_write_ms();

		longest = ms > longest ? ms : longest;
	}
	return longest;
}

/* --- another thread ----------------------------------------------------------------- */

static _Atomic bool resizing;

static void *resize(void *arg)
{
	int err, turns = 0;

	do /* a peer that has got no core for 2 s is as one that is stopped */
		err = ibv_resize_cq(a.node->qp[0]->recv_cq, *(int *)arg);
	while (err == EBUSY && ++turns < RESIZES);
	EXPECT(err == 0, "ibv_resize_cq: %d", err);
	atomic_store(&resizing, false);
	return NULL;
}

/* Begun while the peer is stopped, which goes on in time. */
static void resize_beside(int cqe)
{
	pthread_t thread;

	kill(b.pid, SIGSTOP);
	(void)work_for(LEFT_MS * 1000);
	atomic_store(&resizing, true);
	NEED(pthread_create(&thread, NULL, resize, &cqe) == 0);
	(void)work_for(5000);
	kill(b.pid, SIGCONT);
	while (atomic_load(&resizing))
		(void)own_write_ms();
	NEED(pthread_join(thread, NULL) == 0);
}

static void run(void)
{
	struct node_link patient = link_default();
	struct node_qp_spec spec = spec_default();

	row("the peer is stopped while it floods");
	patient.rnr_retry = 7;
	patient.min_rnr_timer = 1;
	patient.timeout = 18; /* far longer than it is stopped */
	spec.send_cq = spec.recv_cq = 0;
	spec.cap.max_recv_wr = DEPTH;
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, &patient, &b, 0, &patient);
	pair_create(&a, 1, &a, 1, &spec);
	pair_connect(&a, 1, NULL, &a, 1, NULL);
	receive_more(DEPTH);
	side_begin(&b, &(struct side_job){{0}});
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t ms;

		(void)work_for(1000 + (uint64_t)rand() % 2000);
		kill(b.pid, SIGSTOP);
		ms = work_for(STOP_MS * 1000);
		EXPECT(ms < BOUND_MS, "an own request took %lu ms", ms);
		kill(b.pid, SIGCONT);
	}
	row("the CQ is resized while it is stopped, and goes on");
	for (int i = 0; i < ROUNDS / 3; i++) {
		(void)work_for(1000 + (uint64_t)rand() % 2000);
		resize_beside(i % 2 ? LARGE : LARGER);
	}
	for (uint64_t end = now_ms() + PATIENCE; received <= ROUNDS && now_ms() < end;)
		(void)work_for(100000);
	EXPECT(received > ROUNDS, "%u messages", received);
	side_kill(&b);
	EXPECT(side_destroy_qp(&a, 0) == 0, "ibv_destroy_qp");
	EXPECT(side_destroy_qp(&a, 1) == 0, "ibv_destroy_qp");
}

int main(int argc, char **argv)
{
	side_work = flood;
	sides_begin(argc, argv, 400);
	side_open(&a, NULL);
	side_start(&b);
	run();
	side_stop(&a);
	return sandbox_end();
}
