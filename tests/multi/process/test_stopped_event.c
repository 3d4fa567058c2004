/* SPDX-License-Identifier: MIT */
/*
 * The owner of a CQ sleeps for its events. A peer that floods it is stopped (SIGSTOP, a debugger)
 * at any moment, in the middle of an entry or of the event, too. The owner still learns of the
 * messages of another peer. When the stopped one goes on, nothing is lost.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/two_sides.h"

#define ROUNDS	 (TEST_SANITIZED ? 1000 : 2000)
#define BYTES	 8u
#define DEPTH	 100u
#define CQ	 2 /* with a channel */
#define MESSAGES 2u
#define LIMIT_MS 30000u
#define PACE_US	 200u

enum { FLOODER, PACED };

static struct side c; /* the other peer */

/* --- in the peers ----------------------------------------------------------------- */

static void one_message(struct node *n, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(number),
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	NEED(ibv_post_send(n->qp[0], &wr, &bad) == 0);
	while (ibv_poll_cq(n->qp[0]->send_cq, 1, &wc) == 0)
		;
	NEED(wc.status == IBV_WC_SUCCESS);
}

static uint64_t send_for_ever(struct node *n, const struct side_job *job)
{
	for (uint32_t sent = 0;; sent++) {
		one_message(n, sent);
		if (job->arg[0] == PACED)
			usleep(PACE_US);
	}
	return 0;
}

/* --- here ------------------------------------------------------------------------- */

static uint32_t received[2];

static void receive_more(unsigned int from, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		side_recv_one(&a, (int)from, from, 0, BYTES);
}

static void take_one(const struct ibv_wc *wc)
{
	unsigned int from = (unsigned int)wc->wr_id;
	uint32_t number = ntohl(wc->imm_data);

	EXPECT(wc->status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc->status));
	EXPECT(number == received[from], "message %u instead of %u", number, received[from]);
	received[from] = number + 1;
	receive_more(from, 1);
}

static void take_all(void)
{
	struct ibv_wc wc[32];
	int n;

	while ((n = ibv_poll_cq(a.node->cq[CQ], 32, wc)) > 0)
		for (int i = 0; i < n; i++)
			take_one(&wc[i]);
	NEED(n == 0);
}

/* As programs do: arm, look once more, sleep. */
static void work_once(unsigned int ms)
{
	NEED(side_arm(&a, CQ, 0) == 0);
	take_all();
	(void)side_comp_event(&a, ms);
	take_all();
}

static void work_for(uint64_t us)
{
	uint64_t until = now_ns() + us * 1000;

	while (now_ns() < until)
		work_once(1);
}

/* Return: how long it took to get so many messages of the other peer's */
static uint64_t ms_for_others(uint32_t count)
{
	uint32_t enough = received[PACED] + count;
	uint64_t from = now_ms();

	while (received[PACED] < enough && now_ms() < from + LIMIT_MS)
		work_once(LIMIT_MS);
	return now_ms() - from;
}

static void connect_peer(struct side *peer, int qp, struct node_qp_spec *spec)
{
	struct node_link patient = link_default();
	uint32_t qpn;

	patient.rnr_retry = 7;
	patient.min_rnr_timer = 1;
	patient.timeout = 18; /* far longer than anybody is stopped */
	spec->recv_cq = CQ;
	NEED(side_create_qp(&a, qp, spec, &qpn) == 0);
	spec->recv_cq = 1;
	NEED(side_create_qp(peer, 0, spec, &qpn) == 0);
	pair_connect(&a, qp, &patient, peer, 0, &patient);
	receive_more((unsigned int)qp, DEPTH);
}

static void run(void)
{
	struct node_qp_spec spec = spec_default();

	row("a sleeping owner, one of two peers is stopped");
	spec.cap.max_recv_wr = DEPTH;
	NEED(side_create_cq(&a, CQ, 4 * DEPTH, true) == 0);
	connect_peer(&b, FLOODER, &spec);
	connect_peer(&c, PACED, &spec);
	side_begin(&b, &(struct side_job){{FLOODER}});
	side_begin(&c, &(struct side_job){{PACED}});
	for (int i = 0; i < ROUNDS && failures() == 0; i++) {
		uint64_t ms;

		work_for(200 + (uint64_t)rand() % 500);
		side_suspend(&b);
		ms = ms_for_others(MESSAGES);
		EXPECT(ms < LIMIT_MS, "%u messages of the other took %lu ms", MESSAGES, ms);
		kill(b.pid, SIGCONT);
	}
	for (uint64_t end = now_ms() + LIMIT_MS; received[FLOODER] <= ROUNDS && now_ms() < end;)
		work_for(100000);
	EXPECT(received[FLOODER] > ROUNDS, "%u messages", received[FLOODER]);
	side_kill(&b);
	side_kill(&c);
	NEED(side_destroy_qp(&a, FLOODER) == 0 && side_destroy_qp(&a, PACED) == 0);
	NEED(side_destroy_cq(&a, CQ) == 0);
}

int main(int argc, char **argv)
{
	side_work = send_for_ever;
	sides_begin(argc, argv, 400);
	side_open(&a, NULL);
	side_start(&b);
	side_start(&c);
	run();
	side_stop(&a);
	return sandbox_end();
}
