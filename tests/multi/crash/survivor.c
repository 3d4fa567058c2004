/* SPDX-License-Identifier: MIT */
/* The survivor. */
#include "crash/survivor.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/role.h"
#include "crash/third.h"
#include "lib/expect.h"
#include "lib/wait.h"

#define SLACK_MS 20000u /* for a machine that has other things to do */
#define LATE_MS	 20u	/* how long a death may go unnoticed */

uint64_t slowest_ms, late_successes;

/* A little of everything. */
static void turn(struct flow *victim)
{
	struct flow *flows[] = {&third, victim};

	third_turn();
	if (victim && victim->qp)
		flow_post(victim);
	if (victim && victim->cq != third.cq)
		(void)flows_poll(victim->cq, flows, 2);
	if (!flows_poll(third.cq, flows, 2))
		wait_moment();
}

/* Bytes from the victim, while the exchange with the third goes on. Return: false if it is dead
 * instead */
static bool read_from(int sock, void *to, size_t bytes, struct flow *victim)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	while (poll(&p, 1, 0) == 0)
		turn(victim);
	return read(sock, to, bytes) == (ssize_t)bytes;
}

static bool dead(int sock)
{
	char c;

	return recv(sock, &c, 1, MSG_DONTWAIT) == 0;
}

/*
 * The victim is dead: every request ends, and one posted now ends with an error. What is posted
 * within a few milliseconds may still have been left in memory that both mapped, and end with
 * success.
 */
static void expect_end(struct flow *f)
{
	uint64_t begin = now_ms(), limit = begin + RETRY_MS + SLACK_MS, posted;

	f->stop = true;
	do {
		posted = now_ms();
		if (!f->failed && f->sent - f->sends_done < WINDOW)
			post_send(f);
		while (!flow_idle(f) && now_ms() < limit)
			turn(f);
		late_successes += !f->failed;
	} while (!f->failed && posted < begin + LATE_MS);
	if (now_ms() - begin > slowest_ms)
		slowest_ms = now_ms() - begin;
	EXPECT(flow_idle(f), "%lu sends and %lu other requests never end", f->sent - f->sends_done,
	       f->rdma - f->rdma_done);
	EXPECT(f->failed, "a request posted %lu ms after the peer's death ends with success",
	       posted - begin);
}

/* In the error state all receives have been flushed. */
static void expect_flushed(struct flow *f)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(ibv_query_qp(f->qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR,
	       "state %d", (int)attr.qp_state);
	for (uint64_t end = now_ms() + SLACK_MS; f->received < f->receives && now_ms() < end;)
		turn(f);
	EXPECT(f->received == f->receives, "%lu receives were not flushed",
	       f->receives - f->received);
}

static void expect_third_goes_on(struct flow *victim)
{
	uint64_t messages = third.messages + 2, end = now_ms() + RETRY_MS + SLACK_MS;

	while (third.messages < messages && now_ms() < end)
		turn(victim);
	EXPECT(third.messages >= messages, "the exchange with the third process stands still");
}

static bool connect_to_victim(struct flow *f, int sock)
{
	struct hello me = hello_of(f);

	if (!read_from(sock, &f->peer, sizeof(f->peer), NULL))
		return false;
	to_init(f->qp);
	post_receives(f);
	to_rtr(f->qp, &f->peer);
	to_rts(f->qp, TIMEOUT);
	(void)!send(sock, &me, sizeof(me), MSG_NOSIGNAL);
	return true;
}

void one_round(struct end *here, uint64_t seed)
{
	struct flow f = {.end = here, .seed = seed & ~1ull};
	unsigned int victims_kinds;
	int sock, status;
	pid_t pid;

	f.buffer = here->buffer + FLOW_BYTES;
	f.kinds = (unsigned int)(mix(&seed) % 16);
	victims_kinds = (unsigned int)(mix(&seed) % 16);
	f.cq = mix(&seed) % 2 ? third.cq : ibv_create_cq(here->ctx, 64, NULL, NULL, 0);
	f.qp = create_qp(here, f.cq);
	pid = role_start("--victim", f.seed, victims_kinds, &sock);
	if (connect_to_victim(&f, sock)) {
		while (!dead(sock))
			turn(&f);
		waitpid(pid, &status, 0);
		expect_end(&f);
		expect_flushed(&f);
	} else {
		f.stop = true;
		waitpid(pid, &status, 0);
	}
	EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0,
	       "the victim ended with status 0x%x", (unsigned int)status);
	expect_third_goes_on(&f);
	close(sock);
	EXPECT(ibv_destroy_qp(f.qp) == 0, "ibv_destroy_qp");
	f.qp = NULL;
	if (f.cq != third.cq)
		EXPECT(ibv_destroy_cq(f.cq) == 0, "ibv_destroy_cq");
}
