/* SPDX-License-Identifier: MIT */
/*
 * A large message that both sides copy, and what ends or stops in the midst of it: the receive
 * buffer's key, the receiver, the sender. Whoever is left goes on; what the program has got back
 * nobody writes to.
 *
 * The moment is chosen at random: of the time that a message takes, the receiver spends nearly all
 * copying.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coop_fixture.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define ROUNDS	 12
#define MESSAGES 14 /* of LARGE bytes, in each round */
#define STOP_NS	 3000000l
#define LOOK_MS	 5
#define NEXT	 3 /* messages of the next sender */

static struct side c; /* a process that is killed */
static uint64_t seed; /* of the last message's pattern */

static unsigned int below(unsigned int limit)
{
	static uint64_t state;

	if (state == 0)
		state = now_ns();
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(state >> 33) % limit;
}

/* --- something happens to another process while this one is in a call ------------ */

static struct {
	timer_t timer;
	volatile pid_t pid;
	volatile int signal;	/* comes next, */
	volatile int follow_up; /* and after it; 0: none */
} blow;

static void set_timer(long ns)
{
	const struct itimerspec when = {.it_value = {.tv_nsec = ns}};

	timer_settime(blow.timer, 0, &when, NULL);
}

static void strike(int signal)
{
	kill(blow.pid, blow.signal);
	blow.signal = blow.follow_up;
	blow.follow_up = 0;
	if (blow.signal)
		set_timer(STOP_NS);
}

static void prepare_blows(void)
{
	struct sigaction act = {.sa_handler = strike, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};

	if (sigaction(SIGUSR1, &act, NULL) || timer_create(CLOCK_MONOTONIC, &event, &blow.timer))
		DIE("timer");
}

static void strike_soon(pid_t pid, int signal, int follow_up)
{
	blow.pid = pid;
	blow.signal = signal;
	blow.follow_up = follow_up;
	set_timer(1 + (long)below(2500000));
}

/* --- the key --------------------------------------------------------------------- */

static bool is_expected(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS || status == IBV_WC_REM_OP_ERR ||
	       status == IBV_WC_RETRY_EXC_ERR;
}

static void key_row(void)
{
	row("the receive buffer is deregistered while a thread of its owner helps");
	side_load_areas(&a, &(struct area){FROM_AT, LARGE}, 1, ++seed);
	for (int i = 0; i < ROUNDS; i++) {
		enum ibv_wc_status status;
		uint64_t ret;

		pair_create(&a, 1, &b, 1, NULL);
		pair_connect(&a, 1, NULL, &b, 1, NULL);
		if (!EXPECT(coop_work(&b, JOB_OWN_OPEN, 1) == 0, "no memory"))
			return;
		coop_begin_polling(&b, JOB_OWN_CLOSE, 0);
		status = coop_send(1, FROM_AT, LARGE);
		EXPECT(is_expected(status), "'%s'", ibv_wc_status_str(status));
		ret = side_end(&b);
		EXPECT(ret == 0, "%lu bytes were written to it afterwards, or that error",
		       (unsigned long)ret);
		pair_destroy(&a, 1, &b, 1);
	}
}

/* --- the receiver ---------------------------------------------------------------- */

static void post_receives(struct side *s, int qp, int count)
{
	for (int i = 0; i < count; i++)
		side_recv_one(s, qp, 0, TO_AT, LARGE);
}

static void stop_row(void)
{
	row("the receiver is stopped for a while");
	for (int i = 0; i < 3 * ROUNDS; i++) {
		struct area area = {FROM_AT, LARGE};
		int64_t wrong;

		side_load_areas(&a, &area, 1, ++seed);
		side_clear_areas(&b, &area, 1);
		post_receives(&b, 0, 1);
		coop_begin_polling(&b, JOB_POLL, 1);
		strike_soon(b.pid, SIGSTOP, SIGCONT);
		EXPECT(coop_send(0, FROM_AT, LARGE) == IBV_WC_SUCCESS, "not sent");
		EXPECT(side_end(&b) == 1, "not received");
		wrong = side_check_areas(&b, &area, 1, seed, LARGE);
		EXPECT(wrong < 0, "byte %ld is another", (long)(wrong - (int64_t)TO_AT));
		(void)WAIT_UNTIL(!blow.signal, PATIENCE);
	}
}

static void open_victim(void)
{
	side_start(&c);
	pair_create(&a, 1, &c, 0, NULL);
	pair_connect(&a, 1, NULL, &c, 0, NULL);
}

static enum ibv_wc_status send_until_failure(void)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	for (int i = 0; i < MESSAGES && status == IBV_WC_SUCCESS; i++)
		status = coop_send(1, FROM_AT, LARGE);
	return status;
}

static void receiver_row(void)
{
	row("the receiver is killed");
	for (int i = 0; i < ROUNDS; i++) {
		enum ibv_wc_status status;

		open_victim();
		post_receives(&c, 0, MESSAGES);
		coop_begin_polling(&c, JOB_POLL, MESSAGES + 1);
		strike_soon(c.pid, SIGKILL, 0);
		status = send_until_failure();
		side_bury(&c);
		if (status == IBV_WC_SUCCESS)
			status = coop_send(1, FROM_AT, LARGE);
		EXPECT(status != IBV_WC_SUCCESS, "nobody can have received it");
		EXPECT(side_destroy_qp(&a, 1) == 0, "destroying");
	}
}

/* --- the sender ------------------------------------------------------------------ */

static uint64_t whole_pattern_from(uint64_t at)
{
	struct area area = {at, LARGE};

	side_load_areas(&a, &area, 1, ++seed);
	return seed;
}

/* Its queue pair is flushed, and then the buffers are the program's again, though it polls. */
static void expect_silence(int received)
{
	struct ibv_wc wc[1];
	uint64_t mine;
	int64_t wrong;

	EXPECT(side_set_state(&a, 1, IBV_QPS_ERR) == 0, "to ERR");
	while (received < MESSAGES && node_poll(a.node, 1, 1, PATIENCE, wc) == 1)
		received++;
	EXPECT(received == MESSAGES, "%d receives completed", received);
	mine = whole_pattern_from(TO_AT);
	EXPECT(node_poll(a.node, 1, 1, LOOK_MS, wc) == 0, "one more receive");
	wrong = pattern_check(a.node->arena + TO_AT, LARGE, mine, 0);
	EXPECT(wrong < 0, "byte %ld was written to afterwards", (long)wrong);
}

/* Another sender, whose messages end up in the same completion queue, gets help as if nothing had
 * been. */
static void expect_next_sender(void)
{
	struct area area = {TO_AT, LARGE};
	struct ibv_wc wc[NEXT];

	side_clear_areas(&a, &area, 1);
	side_load_areas(&b, &(struct area){FROM_AT, LARGE}, 1, ++seed);
	post_receives(&a, 0, NEXT);
	coop_begin(&b, JOB_SEND, NEXT);
	EXPECT(node_poll(a.node, 1, NEXT, PATIENCE, wc) == NEXT, "not received");
	EXPECT(side_end(&b) == NEXT, "not sent");
	EXPECT(side_check_areas(&a, &area, 1, seed, LARGE) < 0, "another message");
}

/* @polls: also between the sender's death and the flushing */
static void sender_row(bool polls)
{
	row("the sender is killed, and the receiver %s", polls ? "polls on" : "flushes at once");
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_wc wc[MESSAGES];
		int received;

		open_victim();
		post_receives(&a, 1, MESSAGES);
		coop_begin(&c, JOB_SEND, MESSAGES);
		received = node_poll(a.node, 1, 1 + (int)below(MESSAGES - 3), PATIENCE, wc);
		for (uint64_t end = now_ns() + below(400000); now_ns() < end;)
			received += node_poll(a.node, 1, 1, 0, wc);
		kill(c.pid, SIGKILL);
		side_bury(&c);
		if (polls)
			received += node_poll(a.node, 1, MESSAGES - received, LOOK_MS, wc);
		expect_silence(received);
		EXPECT(side_destroy_qp(&a, 1) == 0, "destroying");
		expect_next_sender();
	}
}

static void run(void)
{
	prepare_blows();
	key_row();
	stop_row();
	receiver_row();
	sender_row(true);
	sender_row(false);
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
}

int main(int argc, char **argv)
{
	return coop_test(argc, argv, run);
}
