/* SPDX-License-Identifier: MIT */
/*
 * A peer that is killed, whatever it is doing with its memory in that moment, does not answer any
 * more: that is what a requester hears, and no error of access that a living peer has never made.
 * IBTA volume 1, 9.9.2.1.1: a responder that does not answer is the requester's transport retry
 * counter exceeded.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define ROUNDS	 (TEST_SANITIZED || on_the_wire() ? 6 : 24)
#define BYTES	 65536u
#define HERE_AT	 0x100000u
#define THERE_AT 0x200000u
#define PATIENCE 30000u
#define SPARE_US 3000u
#define ALL_RIGHTS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct side a, victim;

/* --- in the process that is killed: what does not change what a requester may do --- */

enum business { NOTHING, RIGHTS, PLACE, OTHER_REGIONS };

static void change_rights(struct node *n, unsigned int i)
{
	if (ibv_rereg_mr(n->mr[KEY_FULL], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			 ALL_RIGHTS | (i % 2 ? IBV_ACCESS_MW_BIND : 0)))
		abort();
}

static void change_place(struct node *n, unsigned int i)
{
	(void)i;
	if (ibv_rereg_mr(n->mr[KEY_FULL], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, n->arena,
			 NODE_ARENA, 0))
		abort();
}

static void register_others(struct node *n, unsigned int i)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + (i % 16) * BYTES, BYTES, ALL_RIGHTS);

	if (!mr || ibv_dereg_mr(mr))
		abort();
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	static void (*const change[])(struct node *,
				      unsigned int) = {[RIGHTS] = change_rights,
						       [PLACE] = change_place,
						       [OTHER_REGIONS] = register_others};

	for (unsigned int i = 0; i < UINT32_MAX; i++) {
		if (job->arg[0] == NOTHING)
			pause();
		else
			change[job->arg[0]](n, i);
	}
	return 0;
}

/* --- in this one ----------------------------------------------------------------- */

static enum ibv_wc_status do_one(enum ibv_wr_opcode op)
{
	const struct request r = {
		.op = op,
		.flags = IBV_SEND_SIGNALED,
		.bytes = request_is_atomic(op) ? 8 : BYTES,
		.lkey = KEY_FULL,
		.rkey = KEY_FULL,
		.local_at = HERE_AT,
		.remote_at = THERE_AT,
	};
	struct node_send s = request_make(&a, &victim, &r);
	struct ibv_wc wc[1];

	if (side_post_send(&a, 0, &s, 1).ret || side_poll(&a, 0, 1, PATIENCE, wc) != 1)
		return IBV_WC_GENERAL_ERR;
	return wc[0].status;
}

static enum ibv_wc_status kill_in_between(enum ibv_wr_opcode op)
{
	uint64_t when = now_ns() + (uint64_t)(rand() % (int)SPARE_US) * 1000;
	enum ibv_wc_status status = do_one(op);

	while (status == IBV_WC_SUCCESS && now_ns() < when)
		status = do_one(op);
	EXPECT(status == IBV_WC_SUCCESS, "'%s' while it lived", ibv_wc_status_str(status));
	if (status == IBV_WC_SUCCESS)
		side_set_patience(&a, 0, 12, 2); /* of the dead, 50 ms are enough */
	kill(victim.pid, SIGKILL);
	while (status == IBV_WC_SUCCESS)
		status = do_one(op);
	return status;
}

static void killed_row(enum ibv_wr_opcode op, const char *name, enum business business,
		       const char *doing)
{
	row("%s, the peer is killed while %s", name, doing);
	for (int i = 0; i < ROUNDS; i++) {
		enum ibv_wc_status status;

		side_start(&victim);
		pair_create(&a, 0, &victim, 0, NULL);
		pair_connect(&a, 0, NULL, &victim, 0, NULL);
		side_begin(&victim, &(struct side_job){{business}});
		status = kill_in_between(op);
		EXPECT(status == IBV_WC_RETRY_EXC_ERR, "'%s'", ibv_wc_status_str(status));
		side_bury(&victim);
		EXPECT(side_destroy_qp(&a, 0) == 0, "destroying");
	}
}

static void run(void)
{
	static const struct {
		enum ibv_wr_opcode op;
		const char *name;
	} ops[] = {{IBV_WR_RDMA_WRITE, "WRITE"},
		   {IBV_WR_RDMA_READ, "READ"},
		   {IBV_WR_ATOMIC_FETCH_AND_ADD, "FETCH_ADD"}};
	static const char *const doing[] = {
		[NOTHING] = "it sleeps",
		[RIGHTS] = "it re-registers the region with other rights",
		[PLACE] = "it re-registers the region where it is",
		[OTHER_REGIONS] = "it registers and deregisters others",
	};

	for (size_t op = 0; op < COUNT_OF(ops); op++)
		for (enum business b = NOTHING; b <= OTHER_REGIONS; b++)
			killed_row(ops[op].op, ops[op].name, b, doing[b]);
}

int main(int argc, char **argv)
{
	side_work = work;
	sides_begin(argc, argv, 400);
	side_open(&a, NULL);
	run();
	side_stop(&a);
	return sandbox_end();
}
