/* SPDX-License-Identifier: MIT */
/*
 * The caller's cost of one call: requests of 8 bytes between two queue pairs of one process. Leaves
 * the adapter's own work and takes out the distance between cores.
 */
#include <stdio.h>

#include "lib/expect.h"
#include "lib/side.h"
#include "measure.h"

#define BATCH 64
#define TURNS 2000
#define BYTES 8

enum phase { RECV_NS, POST_NS, POLL_NS, POLL_RECV_NS, PHASES };

static struct side end;

struct calls {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	struct series series[PHASES];
};

static struct calls calls[] = {
	{"write", IBV_WR_RDMA_WRITE, 0, {{{0}, 0}}},
	{"write_inline", IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, {{{0}, 0}}},
	{"write_signalled", IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {{{0}, 0}}},
	{"read", IBV_WR_RDMA_READ, 0, {{{0}, 0}}},
	{"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, {{{0}, 0}}},
	{"send", IBV_WR_SEND, 0, {{{0}, 0}}},
};

static void post_receives(struct ibv_qp *qp, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 1}, *bad;

	for (int i = 0; i < BATCH; i++)
		if (ibv_post_recv(qp, &wr, &bad))
			DIE("ibv_post_recv");
}

static void post_sends(struct ibv_qp *qp, struct ibv_send_wr *wr, unsigned int flags)
{
	struct ibv_send_wr *bad;

	for (int i = 0; i < BATCH; i++) {
		wr->send_flags = flags | (i == BATCH - 1 ? IBV_SEND_SIGNALED : 0);
		if (ibv_post_send(qp, wr, &bad))
			DIE("ibv_post_send");
	}
}

static void poll(struct ibv_cq *cq, int wanted)
{
	struct ibv_wc wc[16];

	while (wanted > 0) {
		int n = ibv_poll_cq(cq, 16, wc);

		if (n < 0 || (n > 0 && wc[0].status != IBV_WC_SUCCESS))
			DIE("ibv_poll_cq");
		wanted -= n;
	}
}

static uint64_t lap(uint64_t *since)
{
	uint64_t now = cpu_ns(), took = now - *since;

	*since = now;
	return took;
}

static void turn(const struct calls *c, uint64_t *ns)
{
	struct node *n = end.node;
	struct ibv_sge from = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_sge to = {(uintptr_t)n->arena + 4096, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = c->opcode};
	uint64_t clock = cpu_ns();

	wr.wr.rdma.remote_addr = to.addr;
	wr.wr.rdma.rkey = n->mr[KEY_FULL]->rkey;
	if (c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to.addr;
		wr.wr.atomic.rkey = n->mr[KEY_FULL]->rkey;
	}
	if (c->opcode == IBV_WR_SEND)
		post_receives(n->qp[1], &to);
	ns[RECV_NS] += lap(&clock);
	post_sends(n->qp[0], &wr, c->flags);
	ns[POST_NS] += lap(&clock);
	poll(n->cq[0], c->flags & IBV_SEND_SIGNALED ? BATCH : 1);
	ns[POLL_NS] += lap(&clock);
	if (c->opcode == IBV_WR_SEND)
		poll(n->cq[1], BATCH);
	ns[POLL_RECV_NS] += lap(&clock);
}

static void measure(struct calls *c)
{
	const int turns = bench_count(TURNS, 1);
	uint64_t ns[PHASES] = {0};

	for (int i = 0; i < turns; i++)
		turn(c, ns);
	for (int i = 0; i < PHASES; i++)
		series_add(&c->series[i], (double)ns[i] / BATCH / turns);
}

static void report(struct calls *c)
{
	static const char *const suffix[PHASES] = {"post_recv", "post", "poll", "poll_recv"};
	char name[64];

	for (int i = 0; i < PHASES; i++) {
		bool has = i == POST_NS || (c->opcode == IBV_WR_SEND && i != POLL_NS) ||
			   (i == POLL_NS && (c->flags & IBV_SEND_SIGNALED));

		if (!has)
			continue;
		snprintf(name, sizeof(name), "%s_%s_ns", c->name, suffix[i]);
		series_print(&c->series[i], name, "8B");
	}
}

int main(int argc, char **argv)
{
	struct node_qp_spec spec = spec_default();

	side_agent_main(argc, argv);
	time_limit(600);
	side_open(&end, NULL);
	spec.cap.max_send_wr = spec.cap.max_recv_wr = BATCH;
	pair_create(&end, 0, &end, 1, &spec);
	pair_connect(&end, 0, NULL, &end, 1, NULL);
	for (int run = 0; run < BENCH_RUNS; run++)
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			measure(&calls[i]);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		report(&calls[i]);
	pair_destroy(&end, 0, &end, 1);
	side_stop(&end);
	return failures() ? 1 : 0;
}
