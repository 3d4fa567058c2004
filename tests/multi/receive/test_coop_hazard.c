/* SPDX-License-Identifier: MIT */
/*
 * A poller is in the midst of a piece of a large message when the receive buffer is deregistered:
 * when that has returned nobody writes to the buffer, whatever has become of the sender. A living
 * one waits for the poller and keeps the buffer's key in use all that time; one that was killed
 * does not.
 *
 * The piece takes as long as wanted: of the sender's memory no page can be touched by this process
 * until the test says so.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "coop_fixture.h"
#include "lib/peer_memory.h"
#include "lib/sandbox.h"
#include "lib/stall.h"
#include "lib/wait.h"

#define ROUNDS	 2
#define CQ	 2  /* the receiver's: a sender that waited long asks nobody there for a while */
#define MESSAGES 10 /* each of LARGE bytes */
#define HELPS_MS 60000u /* in which a poller copies a piece: there may be others on the cores */
#define STEP_MS	 5u
#define EARLY_MS 1000u /* in which deregistering would be done if it did not wait */
#define AFTER_MS 20u   /* in which a write that is late is done */
#define OURS	 0x6f757273u
#define THEIRS	 0x746865697273u

static struct side c; /* the sender; this process is the receiver */
static struct ibv_mr *mr;
static _Atomic bool stop, gone;
static _Atomic unsigned int received;

static void *poll_on(void *arg)
{
	struct ibv_wc wc;

	while (!atomic_load(&stop))
		if (ibv_poll_cq(a.node->cq[CQ], 1, &wc) == 1)
			atomic_fetch_add(&received, 1);
	return NULL;
}

static void *deregister(void *arg)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	atomic_store(&gone, true);
	return NULL;
}

static pthread_t start(void *(*run)(void *arg))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		DIE("pthread_create");
	return thread;
}

static void wait_until_gone(unsigned int ms)
{
	(void)WAIT_UNTIL(atomic_load(&gone), ms);
}

/* --- the sender ------------------------------------------------------------------ */

static void open_sender(void)
{
	struct node_qp_spec spec = spec_default();

	spec.send_cq = 0;
	spec.recv_cq = CQ;
	side_start(&c);
	if (side_create_cq(&a, CQ, 4 * MESSAGES, false) ||
	    side_create_cq(&c, CQ, 4 * MESSAGES, false))
		DIE("completion queue");
	pair_create(&a, 1, &c, 0, &spec);
	pair_connect(&a, 1, NULL, &c, 0, NULL);
	side_load_areas(&c, &(struct area){FROM_AT, LARGE}, 1, THEIRS);
}

/* So that this process has its memory mapped. */
static void read_its_memory(void)
{
	struct node_send s =
		side_rdma_to(IBV_WR_RDMA_READ, side_sge(&a, KEY_FULL, TO_AT, 8), &c, FROM_AT);
	struct ibv_wc wc;

	NEED(side_post_send(&a, 1, &s, 1).ret == 0 && side_poll(&a, 0, 1, PATIENCE, &wc) == 1 &&
	     wc.status == IBV_WC_SUCCESS);
}

/* Its memory, as this process sees it. */
static void *its_source(void)
{
	struct ibv_wc wc[1];
	void *at;

	read_its_memory();
	side_recv_one(&a, 1, 0, TO_AT, LARGE);
	coop_begin(&c, JOB_SEND, 1);
	EXPECT(side_end(&c) == 1 && node_poll(a.node, CQ, 1, PATIENCE, wc) == 1,
	       "the first message");
	at = stall_mapped_here(c.pid, c.info.base[KEY_FULL] + FROM_AT);
	if (!at)
		DIE("the sender's memory is not mapped here");
	return at;
}

/* --- the receiver ---------------------------------------------------------------- */

static uint8_t *buffer;

/* A new one each time: deregistering it beside a copy makes it private. */
static void register_buffer(void)
{
	buffer = peer_memory_map(LARGE);
	mr = ibv_reg_mr(a.node->pd, buffer, LARGE, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		DIE("ibv_reg_mr");
}

static void post_receives(void)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, LARGE, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < MESSAGES; i++)
		if (ibv_post_recv(a.node->qp[1], &wr, &bad))
			DIE("ibv_post_recv");
}

/* They would not all fit in the queue with those to come. */
static void wait_for_receives(void)
{
	EXPECT(WAIT_UNTIL(atomic_load(&received) >= MESSAGES, PATIENCE) &&
		       atomic_load(&received) == MESSAGES,
	       "%u received", atomic_load(&received));
}

static bool has_sent(void)
{
	struct pollfd answer = {.fd = c.sock, .events = POLLIN};

	return poll(&answer, 1, 0) == 1;
}

/* Return: is the poller in the midst of a piece? Then the sender waits for it; else it has nothing
 * to do. */
static bool begin_piece(int stall)
{
	for (uint64_t begin = now_ms(); now_ms() - begin < HELPS_MS;) {
		atomic_store(&received, 0);
		post_receives();
		coop_begin(&c, JOB_SEND, MESSAGES);
		do {
			if (stall_wait(stall, STEP_MS))
				return true;
		} while (!has_sent());
		EXPECT(side_end(&c) == MESSAGES, "not sent");
		wait_for_receives();
	}
	return false;
}

/* The buffer is the program's again, which puts something else there. */
static void check_ours(void)
{
	uint8_t *at = buffer;
	int64_t wrong;

	usleep(AFTER_MS * 1000); /* in which a late piece would still be written */
	wrong = pattern_check(at, LARGE, OURS, 0);
	EXPECT(wrong < 0, "byte %ld was written to afterwards", (long)wrong);
}

/* The poller is in the midst of a piece. */
static void end_key(int stall, bool killed)
{
	pthread_t thread;

	if (killed) {
		side_kill(&c);
	}
	atomic_store(&gone, false);
	thread = start(deregister);
	wait_until_gone(EARLY_MS);
	if (atomic_load(&gone)) { /* wrong, and the bytes say so */
		pattern_fill(buffer, LARGE, OURS, 0);
		stall_end(stall);
	} else {
		stall_end(stall);
		wait_until_gone(PATIENCE);
		pattern_fill(buffer, LARGE, OURS, 0);
	}
	pthread_join(thread, NULL);
	check_ours();
	if (!killed)
		(void)side_end(&c); /* of the next message it heard that there is no such key */
}

static void round_of(bool killed)
{
	pthread_t poller;
	int stall;

	open_sender();
	stall = stall_begin(its_source(), LARGE);
	if (stall < 0)
		DIE("its pages cannot be held back");
	register_buffer();
	atomic_store(&stop, false);
	poller = start(poll_on);
	if (EXPECT(begin_piece(stall), "the poller never helped"))
		end_key(stall, killed);
	else
		stall_end(stall);
	atomic_store(&stop, true);
	pthread_join(poller, NULL);
	if (c.pid)
		side_stop(&c);
	peer_memory_unmap(buffer, LARGE);
	EXPECT(side_destroy_qp(&a, 1) == 0 && side_destroy_cq(&a, CQ) == 0, "destroying");
}

static void key_row(bool killed)
{
	row("the receive buffer is deregistered while a poller copies a piece, and the sender %s",
	    killed ? "was killed" : "waits");
	for (int i = 0; i < ROUNDS; i++)
		round_of(killed);
}

static void run(void)
{
	key_row(false);
	key_row(true);
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
}

int main(int argc, char **argv)
{
	if (!stall_possible()) {
		puts("SKIPPED: no piece can be made to take long here");
		return 77;
	}
	return coop_test(argc, argv, run);
}
