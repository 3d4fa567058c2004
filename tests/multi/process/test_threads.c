/* SPDX-License-Identifier: MIT */
/*
 * Many threads on shared objects in one process, which ThreadSanitizer sees both sides of:
 *  - senders, two per queue pair, post numbered SENDs on queue pairs that share one send CQ;
 *  - receivers poll one shared receive CQ and post receives again, on queues of their own or one
 * SRQ;
 *  - meanwhile regions and whole queue pairs come and go.
 * No completion may be lost, doubled or, within one queue pair, out of order.
 *
 * usage: test_threads [SECONDS]
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>

#include "lib/to_rts.h"
#include "lib/expect.h"

#define QPS	  4
#define DEPTH	  64
#define SLOT	  256
#define SENDERS	  2 /* per queue pair */
#define RECEIVERS 2
#define SETTLE_MS 60000u

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* of the receiving end, in the second round */
	struct ibv_mr *mr;
	uint8_t *buf; /* QPS * DEPTH slots */
	struct ibv_qp *qp[QPS];
};

static struct end tx, rx;
static bool use_srq;
static atomic_bool stop;
static atomic_uint in_flight[QPS];
static pthread_mutex_t order[QPS]; /* a number and its post are one step */
static uint32_t next_seq[QPS];
static _Atomic uint64_t sent[QPS], send_done[QPS], received[QPS];

/* Receivers may see two completions of a queue pair in one order and look at them in another: check
 * under a lock. */
static pthread_mutex_t poll_order = PTHREAD_MUTEX_INITIALIZER;
static uint32_t expected[QPS];

static void open_end(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(list && list[0]);
	e->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	NEED(e->ctx);
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, QPS * DEPTH * 2, NULL, NULL, 0);
	e->buf = aligned_alloc(4096, QPS * DEPTH * SLOT);
	NEED(e->pd && e->cq && e->buf);
	memset(e->buf, 0, QPS * DEPTH * SLOT);
	e->mr = ibv_reg_mr(e->pd, e->buf, QPS * DEPTH * SLOT,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(e->mr);
}

static struct ibv_qp *make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = e->srq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(e->pd, &init);
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *to)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	NEED(ibv_query_gid(to->context, 1, 0, &gid) == 0);
	attr = connect_attr(to->qp_num, &gid);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	attr.min_rnr_timer = 1;
	NEED(!connect_qp(qp, attr));
}

static void post_recv(unsigned int q, unsigned int slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(rx.buf + (q * DEPTH + slot) * SLOT),
			      .length = SLOT,
			      .lkey = rx.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = q << 16 | slot, .sg_list = &sge, .num_sge = 1}, *bad;

	if (rx.srq)
		NEED(!ibv_post_srq_recv(rx.srq, &wr, &bad));
	else
		NEED(!ibv_post_recv(rx.qp[q], &wr, &bad));
}

static void post_send(unsigned int q)
{
	struct ibv_sge sge = {.length = 8, .lkey = tx.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM},
			   *bad;

	pthread_mutex_lock(&order[q]);
	if (atomic_load(&in_flight[q]) < DEPTH) {
		uint32_t seq = next_seq[q]++;

		sge.addr = (uintptr_t)(tx.buf + (q * DEPTH + seq % DEPTH) * SLOT);
		/* Every third message is too long for the completion entry, to take the other way.
		 */
		sge.length = seq % 3 ? 8 : SLOT;
		wr.wr_id = (uint64_t)q << 32 | seq;
		wr.imm_data = htonl(seq);
		atomic_fetch_add(&in_flight[q], 1);
		NEED(!ibv_post_send(tx.qp[q], &wr, &bad));
		atomic_fetch_add(&sent[q], 1);
	}
	pthread_mutex_unlock(&order[q]);
}

static void reap_sends(void)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(tx.cq, 8, wc);

	NEED(n >= 0);
	for (int i = 0; i < n; i++) {
		unsigned int q = (unsigned int)(wc[i].wr_id >> 32);

		NEED(wc[i].status == IBV_WC_SUCCESS);
		atomic_fetch_add(&send_done[q], 1);
		atomic_fetch_sub(&in_flight[q], 1);
	}
}

static void *sender(void *arg)
{
	unsigned int q = (unsigned int)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		post_send(q);
		reap_sends();
	}
	return NULL;
}

static unsigned int qp_of(uint32_t qpn)
{
	for (unsigned int q = 0; q < QPS; q++)
		if (rx.qp[q]->qp_num == qpn)
			return q;
	NEED(!"completion of a queue pair of ours");
	return 0;
}

static int reap_receives(void)
{
	struct ibv_wc wc[4];
	int n;

	pthread_mutex_lock(&poll_order);
	n = ibv_poll_cq(rx.cq, 4, wc);
	NEED(n >= 0);
	for (int i = 0; i < n; i++) {
		unsigned int q = qp_of(wc[i].qp_num);

		NEED(wc[i].status == IBV_WC_SUCCESS && wc[i].opcode == IBV_WC_RECV);
		NEED(ntohl(wc[i].imm_data) == expected[q]);
		expected[q]++;
		atomic_fetch_add(&received[q], 1);
	}
	pthread_mutex_unlock(&poll_order);
	for (int i = 0; i < n; i++)
		post_recv((unsigned int)(wc[i].wr_id >> 16), (unsigned int)(wc[i].wr_id & 0xffff));
	return n;
}

static void *receiver(void *arg)
{
	while (!atomic_load(&stop))
		reap_receives();
	return NULL;
}

/* Regions come and go beside the traffic. */
static void *region_churn(void *arg)
{
	uint8_t *page = aligned_alloc(4096, 4096);

	NEED(page);
	while (!atomic_load(&stop)) {
		struct ibv_mr *mr = ibv_reg_mr(rx.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE);

		NEED(mr);
		NEED(!ibv_dereg_mr(mr));
	}
	free(page);
	return NULL;
}

/* Whole connections come and go, with a WRITE and a failing READ on each. */
static void *qp_churn(void *arg)
{
	struct ibv_cq *cq = ibv_create_cq(tx.ctx, 16, NULL, NULL, 0);
	struct end mine = {.ctx = tx.ctx, .pd = tx.pd, .cq = cq};

	NEED(cq);
	while (!atomic_load(&stop)) {
		struct ibv_qp *a = make_qp(&mine), *b = make_qp(&mine);
		struct ibv_sge sge = {.addr = (uintptr_t)tx.buf, .length = 8, .lkey = tx.mr->lkey};
		struct ibv_send_wr read = {.wr_id = 2,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_RDMA_READ},
				   *bad;
		struct ibv_wc wc;

		NEED(a && b);
		connect_to(a, b);
		connect_to(b, a);
		read.wr.rdma.rkey = 1;
		NEED(!ibv_post_send(a, &read, &bad));
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		NEED(wc.status ==
		     IBV_WC_REM_INV_REQ_ERR); /* the responder's flags do not permit it */
		NEED(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	}
	NEED(!ibv_destroy_cq(cq));
	return NULL;
}

static void set_up(void)
{
	open_end(&tx);
	open_end(&rx);
	if (use_srq) {
		struct ibv_srq_init_attr init = {.attr = {.max_wr = QPS * DEPTH, .max_sge = 1}};

		rx.srq = ibv_create_srq(rx.pd, &init);
		NEED(rx.srq);
	}
	for (unsigned int q = 0; q < QPS; q++) {
		pthread_mutex_init(&order[q], NULL);
		tx.qp[q] = make_qp(&tx);
		rx.qp[q] = make_qp(&rx);
		NEED(tx.qp[q] && rx.qp[q]);
		connect_to(tx.qp[q], rx.qp[q]);
		connect_to(rx.qp[q], tx.qp[q]);
		for (unsigned int s = 0; s < DEPTH; s++)
			post_recv(q, s);
		next_seq[q] = expected[q] = 0;
		sent[q] = send_done[q] = received[q] = 0;
		in_flight[q] = 0;
	}
}

static void tear_down(struct end *e)
{
	for (unsigned int q = 0; q < QPS; q++)
		NEED(!ibv_destroy_qp(e->qp[q]));
	if (e->srq)
		NEED(!ibv_destroy_srq(e->srq));
	NEED(!ibv_dereg_mr(e->mr) && !ibv_destroy_cq(e->cq) && !ibv_dealloc_pd(e->pd));
	NEED(!ibv_close_device(e->ctx));
	free(e->buf);
	memset(e, 0, sizeof(*e));
}

/* Everything posted has arrived, and everything that arrived was posted. */
static uint64_t settle(void)
{
	uint64_t total = 0, end = now_ms() + SETTLE_MS;

	for (unsigned int q = 0; q < QPS; q++) {
		while ((received[q] < sent[q] || send_done[q] < sent[q]) && now_ms() < end) {
			reap_sends();
			reap_receives();
		}
		NEED(received[q] == sent[q] && send_done[q] == sent[q]);
		total += sent[q];
	}
	return total;
}

static void run(double seconds)
{
	pthread_t thread[QPS * SENDERS + RECEIVERS + 2];
	struct timespec span = {.tv_sec = (time_t)seconds,
				.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	size_t n = 0;

	set_up();
	atomic_store(&stop, false);
	for (uintptr_t i = 0; i < QPS * SENDERS; i++)
		NEED(!pthread_create(&thread[n++], NULL, sender, (void *)(i % QPS)));
	for (int i = 0; i < RECEIVERS; i++)
		NEED(!pthread_create(&thread[n++], NULL, receiver, NULL));
	NEED(!pthread_create(&thread[n++], NULL, region_churn, NULL));
	NEED(!pthread_create(&thread[n++], NULL, qp_churn, NULL));
	nanosleep(&span, NULL); /* so long there is to be traffic */
	atomic_store(&stop, true);
	for (size_t i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	printf("%s: %llu messages\n", use_srq ? "shared receive queue" : "receive queues",
	       (unsigned long long)settle());
	tear_down(&tx);
	tear_down(&rx);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 4;

	run(seconds / 2);
	use_srq = true;
	run(seconds / 2);
	return 0;
}
