/* SPDX-License-Identifier: MIT */
/*
 * Connections of one host that move to the wire, since neither process may access the other's
 * memory: both ask at once, with messages on their way that need no move; one side resets, destroys
 * or dies in the middle of it; and nobody may use packets.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/refuse_call.h"
#include "lib/request.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/wait.h"

#define BARRIER	  "TEST_BARRIER"
#define PATIENCE  30000u /* ms */
#define PATIENT	  18	 /* a second: threads have to be woken */
#define IMPATIENT 14	 /* 67 ms */
#define ROUNDS	  10
#define GONE	  4 /* rounds in which one side goes away, and the other gives up */
#define REQUESTS  8u
#define BYTES	  10000u
#define SLOT	  0x10000u
#define MESSAGES  0x100000u /* of the other side: sources, */
#define INTO	  0x200000u /* and receives */
#define TARGETS	  0x300000u
#define SEED	  7u

static struct side a, b;

/* --- what a side does ------------------------------------------------------------ */

enum { WRITE_ALL, MESSAGES_TOO };

/* WRITEs, with a SEND behind each. Return: completions without an error */
static uint64_t run(struct node *n, const struct side_job *job)
{
	int count = (int)REQUESTS * (job->arg[0] == MESSAGES_TOO ? 2 : 1), good = 0;
	struct ibv_wc wc[2 * REQUESTS];

	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		bool send = (uint32_t)i >= REQUESTS;
		uint32_t slot = (send ? i - REQUESTS : i) * SLOT;
		struct ibv_sge sge = {(uintptr_t)n->arena + (send ? MESSAGES : 0) + slot, BYTES,
				      n->info.lkey[KEY_FULL]};
		struct ibv_send_wr *bad, wr = {.sg_list = &sge,
					       .num_sge = 1,
					       .opcode = send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
					       .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = job->arg[1] + TARGETS + slot;
		wr.wr.rdma.rkey = (uint32_t)job->arg[2];
		if (ibv_post_send(n->qp[0], &wr, &bad))
			return 0;
	}
	if (node_poll(n, 0, count, PATIENCE, wc) != count)
		return 0;
	for (int i = 0; i < count; i++)
		good += wc[i].status == IBV_WC_SUCCESS;
	return (uint64_t)good;
}

static void begin(struct side *from, struct side *to, int what)
{
	side_begin(from, &(struct side_job){.arg = {(uint64_t)what, to->info.base[KEY_FULL],
						    to->info.key[KEY_FULL]}});
}

/* --- both at once ---------------------------------------------------------------- */

static void connect_pair(uint8_t timeout)
{
	struct node_link link = link_default();

	link.timeout = timeout;
	link.retry_cnt = 4;
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &link, &b, 0, &link);
}

static void load(struct side *s, uint64_t seed)
{
	side_fill(s, 0, REQUESTS * SLOT, seed, 0);
	side_fill(s, MESSAGES, REQUESTS * SLOT, seed, 0);
	side_fill(s, INTO, REQUESTS * SLOT, 0, 0);
	side_fill(s, TARGETS, REQUESTS * SLOT, 0, 0);
	for (uint32_t i = 0; i < REQUESTS; i++)
		side_recv_one(s, 0, i, INTO + i * SLOT, BYTES);
}

static void expect_all(struct side *s, uint64_t seed)
{
	struct ibv_wc wc[REQUESTS];

	EXPECT(side_poll(s, 1, REQUESTS, PATIENCE, wc) == REQUESTS, "messages");
	for (uint32_t i = 0; i < REQUESTS; i++) {
		EXPECT(side_check(s, TARGETS + i * SLOT, BYTES, seed, i * SLOT) == -1, "WRITE %u",
		       i);
		EXPECT(side_check(s, INTO + i * SLOT, BYTES, seed, i * SLOT) == -1, "SEND %u", i);
	}
}

static void both_row(void)
{
	row("both are refused at once, %d times", ROUNDS);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t there, back;

		connect_pair(PATIENT);
		load(&a, SEED + i);
		load(&b, SEED + i + ROUNDS);
		begin(&a, &b, MESSAGES_TOO);
		begin(&b, &a, MESSAGES_TOO);
		there = side_end(&a);
		back = side_end(&b);
		EXPECT(there == 2 * REQUESTS && back == 2 * REQUESTS, "%lu and %lu", there, back);
		expect_all(&b, SEED + i);
		expect_all(&a, SEED + i + ROUNDS);
		pair_destroy(&a, 0, &b, 0);
	}
}

/* --- one goes away --------------------------------------------------------------- */

/* At another moment of the move each time. Nobody hangs, and the next connection works. */
static void gone_row(const char *name, int (*go)(struct side *s))
{
	row("%s, %d times", name, GONE);
	for (unsigned int i = 0; i < GONE; i++) {
		connect_pair(IMPATIENT);
		begin(&a, &b, WRITE_ALL);
		let_go_on(i * 120);
		EXPECT(go(&b) == 0, "errno %d", errno);
		(void)side_end(&a);
		pair_destroy(&a, 0, &b, 0);
	}
}

static int reset(struct side *s)
{
	return side_set_state(s, 0, IBV_QPS_RESET);
}

static int fail(struct side *s)
{
	return side_set_state(s, 0, IBV_QPS_ERR);
}

/* The first time it is stopped before: it cannot have done anything. */
static void killed_row(void)
{
	row("the peer is killed, %d times", GONE);
	for (unsigned int i = 0; i < GONE; i++) {
		uint64_t done;

		connect_pair(IMPATIENT);
		if (i == 0)
			side_suspend(&b);
		begin(&a, &b, WRITE_ALL);
		let_go_on(i * 120);
		side_kill(&b);
		done = side_end(&a);
		EXPECT(done == 0 || i > 0, "%lu were done", done);
		EXPECT(side_destroy_qp(&a, 0) == 0, "ibv_destroy_qp");
		side_start(&b);
	}
}

/* --- no packets ------------------------------------------------------------------ */

static void refused_row(void)
{
	row("who may not use packets says so, and the other's requests fail");
	setenv("ANYVERBS_TRANSPORT", "direct", 1);
	side_stop(&b);
	side_start(&b);
	unsetenv("ANYVERBS_TRANSPORT");
	connect_pair(PATIENT);
	EXPECT_PROBE(&a, &b, 0, IBV_WR_RDMA_WRITE, b.info.base[KEY_FULL] + TARGETS,
		     b.info.key[KEY_FULL], BYTES, IBV_WC_REM_OP_ERR);
	pair_destroy(&a, 0, &b, 0);
}

int main(int argc, char **argv)
{
	if (getenv(BARRIER))
		refuse_memory_of_others();
	side_work = run;
	sides_begin(argc, argv, 200);
	setenv(BARRIER, "1", 1);
	side_start(&a);
	side_start(&b);
	both_row();
	gone_row("the peer is reset", reset);
	gone_row("the peer fails", fail);
	killed_row();
	refused_row();
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
