/* SPDX-License-Identifier: MIT */
/* Tunneled atomics and the process at the other end: it executes those that waited for it, once;
 * and it is killed. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "lib/wait.h"
#include "tunneled_fixture.h"

#define QP_MORTAL 3  /* to one that is killed */
#define SOON	  50 /* requests until then */

static struct side mortal;

/* With immediate data, and no receive request: it waits, and the other process executes it, once.
 */
static void waiting_row(enum way way)
{
	struct target t = peer("the other process", KIND_PLAIN);
	struct node_send s = write_request(&t, WAY_IMM, t.addr, COMMAND);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct anyverbs_tunneled_atomic c = tunneled_command(&one, 0);
	struct node_link patient = link_default();
	struct ibv_wc wc;

	row("waiting for a receive request, %s", way_name[way]);
	patient.rnr_retry = 7;
	side_set_state(&a, QP_PEER, IBV_QPS_RESET);
	side_set_state(&b, QP_PEER, IBV_QPS_RESET);
	pair_connect(&a, QP_PEER, &patient, &b, QP_PEER, NULL);
	put_commands(&c, 1);
	side_poke(&b, BLOCK_AT, 41);
	if (way == WAY_INLINE)
		s.flags |= IBV_SEND_INLINE;
	EXPECT(side_post_send(&a, QP_PEER, &s, 1).ret == 0, "refused");
	EXPECT(side_peek(&b, BLOCK_AT) == 41, "executed before it could be received");
	side_recv_one(&b, QP_PEER, 1, 0, 0);
	EXPECT(side_poll(&a, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "status");
	expect_immediate(&t, COMMAND, SUCCESS);
	EXPECT(side_peek(&b, BLOCK_AT) == 42, "%llu", (unsigned long long)side_peek(&b, BLOCK_AT));
	recover(&t);
}

static _Atomic unsigned int written;

/* In the midst of what the other thread writes. */
static void *kill_soon(void *arg)
{
	EXPECT(WAIT_UNTIL(atomic_load(&written) >= SOON, PROBE_PATIENCE), "nothing is written");
	NEED(kill(*(const pid_t *)arg, SIGKILL) == 0);
	return NULL;
}

/* The other process is killed while commands come. */
static void kill_row(void)
{
	struct target t = {.name = "a process that is killed", .qp = QP_MORTAL, .side = &mortal};
	struct target other = peer("the other process", KIND_PLAIN);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct anyverbs_tunneled_atomic c[2];
	enum ibv_wc_status got;
	pthread_t thread;

	row("%s", t.name);
	side_start(&mortal);
	pair_create(&a, QP_MORTAL, &mortal, QP_PEER, NULL);
	pair_connect(&a, QP_MORTAL, NULL, &mortal, QP_PEER, NULL);
	t.rkey = ask(&mortal, KIND_PLAIN);
	t.addr = mortal.info.base[KEY_FULL] + BLOCK_AT;
	c[0] = c[1] = tunneled_command(&one, 0);
	put_commands(c, 2);
	NEED(pthread_create(&thread, NULL, kill_soon, &mortal.pid) == 0);
	while ((got = write_payload(&t, WAY_WRITE, t.addr, 2 * COMMAND)) == SUCCESS)
		atomic_fetch_add(&written, 1);
	EXPECT(got == IBV_WC_RETRY_EXC_ERR, "'%s'", ibv_wc_status_str(got));
	pthread_join(thread, NULL);
	side_bury(&mortal);
	EXPECT(side_destroy_qp(&a, QP_MORTAL) == 0, "ibv_destroy_qp");
	EXPECT(write_payload(&other, WAY_WRITE, other.addr, COMMAND) == SUCCESS,
	       "the others do not go on");
}

static void run(void)
{
	waiting_row(WAY_WRITE);
	waiting_row(WAY_INLINE);
	kill_row();
}

int main(int argc, char **argv)
{
	return tunneled_test(argc, argv, NULL, run);
}
