/* SPDX-License-Identifier: MIT */
/*
 * A peer is stopped (SIGSTOP, a debugger) again and again while it sends. Other senders to the same
 * shared receive queue and to the same datagram queue pair go on, and the receiver's own queue
 * pair fails in time. When the peer goes on, no message has been lost, came twice or came too
 * early, except datagrams, which may be lost.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/to_rts.h"
#include "lib/two_sides.h"
#include "lib/wait.h"

#define ROUNDS	 (TEST_SANITIZED ? 30 : 80)
#define BYTES	 8u
#define GRH	 40u
#define DEPTH	 200u
#define BOUND_MS 1900u /* for one request while the peer is stopped: no wait of 2 s */
#define STOP_MS	 60u
#define PATIENCE 30000u
#define QKEY	 0x11111111u

enum { FROM_PEER = 1, OWN };
enum { JOB_TYPE, JOB_DEST };

static struct ibv_qp *make_qp(struct node *n, enum ibv_qp_type type, struct ibv_cq *send_cq,
			      struct ibv_cq *recv_cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = srq ? 0 : DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = srq ? 0 : 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);

	NEED(qp);
	return qp;
}

#define PATIENT	  18 /* as a timeout: far longer than anybody is stopped */
#define IMPATIENT 12 /* with all retries 134 ms */

static void connect_to(struct node *n, struct ibv_qp *qp, uint32_t dest, uint8_t timeout)
{
	struct ibv_qp_attr attr = connect_attr(dest, &n->info.gid);

	attr.timeout = timeout;
	attr.rnr_retry = 7;
	attr.min_rnr_timer = 1;
	attr.qkey = QKEY;
	NEED(connect_qp(qp, attr) == 0);
}

static struct ibv_ah *address(struct node *n)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.dgid = n->info.gid, .hop_limit = 64, .sgid_index = 0}};
	struct ibv_ah *ah = ibv_create_ah(n->pd, &attr);

	NEED(ah);
	return ah;
}

static struct ibv_send_wr message(const struct ibv_qp *qp, struct ibv_ah *ah, uint32_t dest,
				  struct ibv_sge *sge, uint32_t imm)
{
	struct ibv_send_wr wr = {.sg_list = sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(imm),
				 .send_flags = IBV_SEND_SIGNALED};

	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = dest;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return wr;
}

/* --- in the peer ------------------------------------------------------------------ */

static struct ibv_qp *its_qp;

/* First job: a queue pair. Return: its number */
static uint64_t begin(struct node *n, const struct side_job *job)
{
	struct ibv_cq *cq = ibv_create_cq(n->ctx, 64, NULL, NULL, 0);

	NEED(cq);
	its_qp = make_qp(n, (enum ibv_qp_type)job->arg[JOB_TYPE], cq, cq, NULL);
	connect_to(n, its_qp, (uint32_t)job->arg[JOB_DEST], PATIENT);
	return its_qp->qp_num;
}

/* Second: each message carries its number. Return: what a request failed with */
static uint64_t flood(struct node *n, const struct side_job *job)
{
	struct ibv_ah *ah = address(n);
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr *bad;
	uint32_t sent = 0;
	struct ibv_wc wc[16];
	int got;

	for (;;) {
		struct ibv_send_wr wr =
			message(its_qp, ah, (uint32_t)job->arg[JOB_DEST], &sge, sent);

		sent += ibv_post_send(its_qp, &wr, &bad) == 0;
		while ((got = ibv_poll_cq(its_qp->send_cq, 16, wc)) > 0)
			for (int i = 0; i < got; i++)
				if (wc[i].status)
					return wc[i].status;
	}
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	return its_qp ? flood(n, job) : begin(n, job);
}

/* --- here ------------------------------------------------------------------------- */

static struct node *here;
static enum ibv_qp_type type;
static bool shared; /* one receive queue for all */
static struct ibv_cq *sends, *receives;
static struct ibv_srq *srq;
static struct ibv_qp *from_peer, *from_own, *to_own;
static struct ibv_ah *ah;
static uint32_t received;
static unsigned long own_received, posted, completed;

static void post_receives(unsigned int count)
{
	struct ibv_sge sge = {(uintptr_t)here->arena, GRH + BYTES, here->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (unsigned int i = 0; i < count; i++)
		EXPECT((srq ? ibv_post_srq_recv(srq, &wr, &bad)
			    : ibv_post_recv(from_peer, &wr, &bad)) == 0,
		       "posting a receive");
	posted += count;
}

/* Numbers of the peer's messages count up, by one on a connection. */
static void one_message(const struct ibv_wc *wc)
{
	uint32_t number = ntohl(wc->imm_data);
	bool own = wc->qp_num != from_peer->qp_num || (type == IBV_QPT_UD && number == UINT32_MAX);

	EXPECT(wc->status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc->status));
	completed++;
	if (own) {
		own_received++;
	} else {
		EXPECT(type == IBV_QPT_UD ? number >= received : number == received,
		       "message %u instead of %u", number, received);
		received = number + 1;
	}
	post_receives(1);
}

static void poll_receives(void)
{
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(receives, 32, wc);

	NEED(n >= 0);
	for (int i = 0; i < n; i++)
		one_message(&wc[i]);
}

/* A message of our own, until it has been sent, and over a connection received. */
static uint64_t own_message_ms(void)
{
	struct ibv_sge sge = {(uintptr_t)here->arena, BYTES, here->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = message(from_own, ah, from_peer->qp_num, &sge, UINT32_MAX), *bad;
	unsigned long before = own_received;
	uint64_t from = undisturbed_ms();
	struct ibv_wc wc;
	bool sent = false;

	EXPECT(ibv_post_send(from_own, &wr, &bad) == 0, "ibv_post_send");
	while (!sent || (type == IBV_QPT_RC && own_received == before)) {
		if (!sent && ibv_poll_cq(sends, 1, &wc) == 1) {
			EXPECT(wc.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc.status));
			sent = true;
		}
		poll_receives();
	}
	return undisturbed_ms() - from;
}

/* Return: the longest */
static uint64_t work_for(uint64_t us)
{
	uint64_t until = now_ns() + us * 1000, longest = 0;

	while (now_ns() < until) {
		uint64_t ms = own_message_ms();

		longest = ms > longest ? ms : longest;
	}
	return longest;
}

static void open_here(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	uint32_t its;

	here = a.node;
	received = 0;
	own_received = posted = completed = 0;
	sends = ibv_create_cq(here->ctx, 64, NULL, NULL, 0);
	receives = ibv_create_cq(here->ctx, 2 * DEPTH, NULL, NULL, 0);
	srq = shared ? ibv_create_srq(here->pd, &init) : NULL;
	NEED(sends && receives);
	from_peer = make_qp(here, type, sends, receives, srq);
	from_own = make_qp(here, type, sends, receives, srq);
	to_own = make_qp(here, type, sends, receives, srq);
	side_begin(&b, &(struct side_job){{type, from_peer->qp_num}});
	its = (uint32_t)side_end(&b);
	/* What it asks the peer may find the peer stopped, and unable to answer. */
	connect_to(here, from_peer, its, IMPATIENT);
	connect_to(here, from_own, to_own->qp_num, PATIENT);
	connect_to(here, to_own, from_own->qp_num, PATIENT);
	ah = address(here);
	post_receives(DEPTH / 2);
	side_begin(&b, &(struct side_job){{type, from_peer->qp_num}});
}

static void close_here(void)
{
	EXPECT(!from_peer || ibv_destroy_qp(from_peer) == 0, "ibv_destroy_qp");
	EXPECT(ibv_destroy_qp(from_own) == 0 && ibv_destroy_qp(to_own) == 0, "ibv_destroy_qp");
	EXPECT(ibv_destroy_ah(ah) == 0 && (!srq || ibv_destroy_srq(srq) == 0), "the rest");
	EXPECT(ibv_destroy_cq(sends) == 0 && ibv_destroy_cq(receives) == 0, "ibv_destroy_cq");
}

static void others_go_on(void)
{
	open_here();
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t ms;

		(void)work_for(1000 + (uint64_t)rand() % 2000);
		side_suspend(&b);
		ms = work_for(STOP_MS * 1000);
		EXPECT(ms < BOUND_MS, "an own message took %lu ms", (unsigned long)ms);
		kill(b.pid, SIGCONT);
	}
	for (uint64_t end = now_ms() + PATIENCE; received <= ROUNDS && now_ms() < end;)
		(void)work_for(100000);
	EXPECT(received > ROUNDS, "%u messages", received);
	EXPECT(own_received > ROUNDS, "%lu own messages", own_received);
	side_kill(&b);
	close_here();
}

/* Each receive that is posted can still be used once the dead peer's queue pair is gone. */
static void none_is_lost(void)
{
	struct ibv_sge sge = {(uintptr_t)here->arena, BYTES, here->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = message(from_own, ah, to_own->qp_num, &sge, UINT32_MAX), *bad;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	uint64_t until = now_ms() + PATIENCE;
	struct ibv_wc wc;

	/* On the wire, what the peer had sent may arrive only now: no more of it. */
	if (on_the_wire())
		EXPECT(ibv_modify_qp(from_peer, &error, IBV_QP_STATE) == 0, "ibv_modify_qp");
	/* First its completions, which would go with the queue pair. */
	while (ibv_poll_cq(receives, 1, &wc) == 1)
		completed++;
	EXPECT(ibv_destroy_qp(from_peer) == 0, "ibv_destroy_qp");
	while (completed < posted && now_ms() < until) {
		EXPECT(ibv_post_send(from_own, &wr, &bad) == 0, "ibv_post_send");
		while (ibv_poll_cq(sends, 1, &wc) == 0 && now_ms() < until)
			;
		EXPECT(wc.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc.status));
		while (ibv_poll_cq(receives, 1, &wc) == 1)
			completed++;
	}
	EXPECT(completed == posted, "%lu of %lu receives completed", completed, posted);
	from_peer = NULL;
}

static void others_go_on_beside_a_death(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t ms;

		open_here();
		(void)work_for(500 + (uint64_t)rand() % 1000);
		kill(b.pid, SIGKILL);
		ms = work_for(1000);
		EXPECT(ms < BOUND_MS, "an own message took %lu ms", (unsigned long)ms);
		side_kill(&b);
		if (shared)
			none_is_lost();
		close_here();
		side_start(&b);
	}
	side_kill(&b);
}

/* Its own request fails, while the peer may be in the middle of a message to it. */
static void fails_in_time(void)
{
	struct ibv_sge sge = {(uintptr_t)here->arena, BYTES, here->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1}, *bad;
	uint64_t from = undisturbed_ms(), ms;
	struct ibv_wc wc;

	wr.wr.rdma.rkey = 0xffffffff;
	EXPECT(ibv_post_send(from_peer, &wr, &bad) == 0, "ibv_post_send");
	while (ibv_poll_cq(sends, 1, &wc) == 0)
		;
	post_receives(1);
	ms = undisturbed_ms() - from;
	EXPECT(wc.status != IBV_WC_SUCCESS, "a READ without a key");
	EXPECT(ms < BOUND_MS, "to fail took %lu ms", (unsigned long)ms);
}

/* Each receive completes, in order: first those that arrived, then the others, flushed. */
static void expect_all_flushed(void)
{
	uint64_t until = now_ms() + PATIENCE;
	bool flushed = false;
	struct ibv_wc wc;

	while (completed < posted && now_ms() < until)
		if (ibv_poll_cq(receives, 1, &wc) == 1) {
			completed++;
			EXPECT(!flushed || wc.status == IBV_WC_WR_FLUSH_ERR, "'%s' after a flush",
			       ibv_wc_status_str(wc.status));
			flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
		}
	EXPECT(completed == posted, "%lu of %lu receives completed", completed, posted);
}

static void an_error_is_in_time(void)
{
	for (int i = 0; i < ROUNDS / 10; i++) {
		uint64_t until;

		open_here();
		until = now_ns() + 1000000 + (uint64_t)rand() % 2000000;
		while (now_ns() < until)
			poll_receives();
		side_suspend(&b);
		fails_in_time();
		kill(b.pid, SIGCONT);
		(void)side_end(&b);
		expect_all_flushed();
		side_kill(&b);
		close_here();
		side_start(&b);
	}
	side_kill(&b);
}

static const struct {
	const char *name;
	enum ibv_qp_type type;
	bool shared;
	void (*run)(void);
} rows[] = {
	{"others send to the same shared receive queue", IBV_QPT_RC, true, others_go_on},
	{"others send to the same datagram queue pair", IBV_QPT_UD, false, others_go_on},
	{"datagrams and a shared receive queue", IBV_QPT_UD, true, others_go_on},
	{"the queue pair that it sends to fails", IBV_QPT_RC, false, an_error_is_in_time},
	{"it is killed; a shared receive queue", IBV_QPT_RC, true, others_go_on_beside_a_death},
	{"it is killed; a datagram queue pair", IBV_QPT_UD, false, others_go_on_beside_a_death},
	{"it is killed; both", IBV_QPT_UD, true, others_go_on_beside_a_death},
};

int main(int argc, char **argv)
{
	side_work = work;
	sides_begin(argc, argv, 400);
	side_open(&a, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row("%s", rows[i].name);
		side_start(&b);
		type = rows[i].type;
		shared = rows[i].shared;
		rows[i].run();
	}
	side_stop(&a);
	return sandbox_end();
}
