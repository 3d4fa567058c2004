/* SPDX-License-Identifier: MIT */
/*
 * Inline receive, on and off in turn. Measures a ping-pong between two polling processes, one way
 * in nanoseconds, into one element and into many. Also measures the post of a receive that has to
 * execute the RDMA READ which the peer queued behind its blocked SEND.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/side.h"
#include "measure.h"

#define LIMIT	  1024u
#define DEPTH	  64u
#define EXCHANGES 4000u
#define WARM_UP	  400u
#define SEND_AT	  0x100000u
#define RIGHTS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum job { JOB_MAKE, JOB_CONNECT, JOB_END, JOB_EXCHANGE, JOB_UNBLOCK };

static struct side a, b; /* a is in this process */

static uint64_t make(struct node *n, uint32_t inline_recv)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = NODE_SGE},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_INL_RECV,
		.pd = n->pd,
		.max_inl_recv = inline_recv,
	};

	n->qp[0] = ibv_exp_create_qp(n->ctx, &attr);
	if (!n->qp[0] || attr.max_inl_recv != inline_recv)
		DIE("ibv_exp_create_qp: errno %d, %u granted", errno, attr.max_inl_recv);
	return n->qp[0]->qp_num;
}

static void connect_to(struct node *n, const struct side_job *job)
{
	struct node_link link = link_default();

	link.dest_qpn = (uint32_t)job->arg[1];
	memcpy(link.dgid.raw, &job->arg[2], sizeof(link.dgid));
	link.min_rnr_timer = 31; /* longest timer, so that only the receive unblocks the peer */
	if (node_connect(n, 0, &link))
		DIE("not connected");
}

/* --- messages -------------------------------------------------------------------- */

static void post(struct node *n, uint32_t i, uint32_t bytes, uint32_t elements)
{
	struct ibv_sge sge[NODE_SGE];
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = (int)elements}, *bad;
	uint32_t each = (bytes + elements - 1) / elements;

	for (uint32_t e = 0; e < elements; e++)
		sge[e] = (struct ibv_sge){n->info.base[KEY_FULL] + i % DEPTH * 8192 +
						  e * (each + 64),
					  each, n->info.key[KEY_FULL]};
	if (ibv_post_recv(n->qp[0], &wr, &bad))
		DIE("ibv_post_recv");
}

static void take(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	if (wc.status != IBV_WC_SUCCESS)
		DIE("'%s'", ibv_wc_status_str(wc.status));
}

static void send_one(struct node *n, uint32_t bytes)
{
	struct ibv_sge sge = {n->info.base[KEY_FULL] + SEND_AT, bytes, n->info.key[KEY_FULL]};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (ibv_post_send(n->qp[0], &wr, &bad))
		DIE("ibv_post_send");
	take(n->cq[0]);
}

static int ascending(const void *x, const void *y)
{
	uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;

	return (p > q) - (p < q);
}

/*
 * One-way time in nanoseconds on the side that sends first. Half of the median round trip, so
 * losing the core does not count.
 */
static uint64_t exchange(struct node *n, uint32_t bytes, uint32_t elements, bool first)
{
	static uint32_t took[EXCHANGES + WARM_UP];
	uint32_t warm_up = (uint32_t)bench_count(WARM_UP, 1),
		 count = (uint32_t)bench_count(EXCHANGES, 3);

	for (uint32_t i = 0; i < count + warm_up; i++) {
		uint64_t begin = now_ns();

		if (first)
			send_one(n, bytes);
		take(n->cq[1]);
		post(n, i, bytes, elements);
		if (!first)
			send_one(n, bytes);
		took[i] = (uint32_t)(now_ns() - begin);
	}
	qsort(took + warm_up, count, sizeof(took[0]), ascending);
	return took[warm_up + count / 2] / 2;
}

/* --- blocked requests ------------------------------------------------------------ */

/* Duration of the call that executes the peer's blocked requests. */
static uint64_t unblock(struct node *n)
{
	uint64_t begin = now_ns(), ns;

	post(n, 0, 8, 1);
	ns = now_ns() - begin;
	take(n->cq[1]);
	return ns;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case JOB_MAKE:
		return make(n, (uint32_t)job->arg[1]);
	case JOB_CONNECT:
		connect_to(n, job);
		return 0;
	case JOB_END:
		return (uint64_t)node_destroy_qp(n, 0);
	case JOB_EXCHANGE:
		for (uint32_t i = 0; i < DEPTH / 2; i++)
			post(n, i, (uint32_t)job->arg[1], (uint32_t)job->arg[2]);
		return exchange(n, (uint32_t)job->arg[1], (uint32_t)job->arg[2], false);
	case JOB_UNBLOCK:
		return unblock(n);
	}
	return 0;
}

/* --- in turn --------------------------------------------------------------------- */

static uint64_t there(struct side_job job)
{
	side_begin(&b, &job);
	return side_end(&b);
}

static struct side_job connection(uint32_t qpn, const struct side *s)
{
	struct side_job job = {.arg = {JOB_CONNECT, qpn}};

	memcpy(&job.arg[2], s->info.gid.raw, sizeof(s->info.gid));
	return job;
}

static void begin(uint32_t inline_recv)
{
	uint32_t here = (uint32_t)make(a.node, inline_recv);
	struct side_job job =
		connection((uint32_t)there((struct side_job){.arg = {JOB_MAKE, inline_recv}}), &b);

	connect_to(a.node, &job);
	there(connection(here, &a));
}

static void end(void)
{
	there((struct side_job){.arg = {JOB_END}});
	node_destroy_qp(a.node, 0);
}

static double message_ns(uint32_t inline_recv, uint32_t bytes, uint32_t elements)
{
	uint64_t ns;

	begin(inline_recv);
	for (uint32_t i = 0; i < DEPTH / 2; i++)
		post(a.node, i, bytes, elements);
	side_begin(&b, &(struct side_job){.arg = {JOB_EXCHANGE, bytes, elements}});
	ns = exchange(a.node, bytes, elements, true);
	(void)side_end(&b);
	end();
	return (double)ns;
}

static void messages(uint32_t bytes, uint32_t elements)
{
	struct series off = {0}, on = {0}, ratio = {0};
	char name[32], size[16];

	for (int i = 0; i < BENCH_RUNS; i++) {
		double without = message_ns(0, bytes, elements),
		       with = message_ns(LIMIT, bytes, elements);

		series_add(&off, without);
		series_add(&on, with);
		series_add(&ratio, with / without);
	}
	snprintf(size, sizeof(size), "%uB", bytes);
	snprintf(name, sizeof(name), "recv_%usge_plain_ns", elements);
	series_print(&off, name, size);
	snprintf(name, sizeof(name), "recv_%usge_inline_ns", elements);
	series_print(&on, name, size);
	snprintf(name, sizeof(name), "recv_%usge_inline/plain", elements);
	series_print(&ratio, name, size);
}

#define READS 200

/* The shortest of many calls, because each stands alone and finds its peer asleep. */
static double read_ns(uint32_t inline_recv)
{
	struct ibv_sge sge = {a.info.base[KEY_FULL], 8, a.info.key[KEY_FULL]};
	struct ibv_send_wr read = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_RDMA_READ,
				   .wr.rdma = {b.info.base[KEY_FULL] + SEND_AT,
					       b.info.key[KEY_FULL]}},
			   block = {.next = &read, .opcode = IBV_WR_SEND}, *bad;
	uint64_t best = UINT64_MAX;

	begin(inline_recv);
	for (int i = 0; i < READS; i++) {
		uint64_t ns;

		if (ibv_post_send(a.node->qp[0], &block, &bad))
			DIE("ibv_post_send");
		ns = there((struct side_job){.arg = {JOB_UNBLOCK}});
		best = ns < best ? ns : best;
		take(a.node->cq[0]);
		take(a.node->cq[0]);
	}
	end();
	return (double)best;
}

static void answers(void)
{
	struct series off = {0}, on = {0}, ratio = {0};

	for (int i = 0; i < BENCH_RUNS; i++) {
		double without = read_ns(0), with = read_ns(LIMIT);

		series_add(&off, without);
		series_add(&on, with);
		series_add(&ratio, with / without);
	}
	series_print(&off, "peers_read_plain_ns", "8B");
	series_print(&on, "peers_read_inline_ns", "8B");
	series_print(&ratio, "peers_read_inline/plain", "8B");
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {8, 64, 65, 128, 256, 512, 1024};

	time_limit(600);
	side_work = work;
	side_agent_main(argc, argv);
	side_open(&a, NULL);
	side_start(&b);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		messages(sizes[i], 1);
	messages(64, 8);
	messages(512, 8);
	messages(1024, NODE_SGE);
	answers();
	side_stop(&b);
	side_stop(&a);
	return 0;
}
