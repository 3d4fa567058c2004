/* SPDX-License-Identifier: MIT */
/* How a victim lives, and when it dies. */
#include "crash/victim.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "crash/flow.h"
#include "lib/expect.h"

enum step {
	STEP_START,
	STEP_OPEN,
	STEP_QP,
	STEP_INIT,
	STEP_RTR,
	STEP_RTS,
	STEP_TRAFFIC,
	STEP_DESTROY,
	STEP_CLOSE,
	STEP_N
};

static struct {
	enum step at;
	uint64_t delay_ns;
	unsigned int turns; /* of traffic before a death in STEP_TRAFFIC */
} fate;

static void arm_death(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	struct itimerspec when = {.it_value = {.tv_nsec = (long)fate.delay_ns}};
	timer_t timer;

	if (fate.delay_ns == 0)
		kill(getpid(), SIGKILL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL))
		DIE("timer");
}

static void reach(enum step step)
{
	if (fate.at == step)
		arm_death();
}

static void choose_fate(uint64_t seed)
{
	static const uint64_t scale[] = {0, 20000, 200000, 3000000};

	fate.at = mix(&seed) % 2 ? STEP_TRAFFIC : (enum step)(mix(&seed) % STEP_N);
	fate.delay_ns = scale[mix(&seed) % COUNT_OF(scale)];
	if (fate.delay_ns)
		fate.delay_ns = 1 + mix(&seed) % fate.delay_ns;
	if (fate.at == STEP_START)
		fate.delay_ns += mix(&seed) % 8000000;
	fate.turns = (unsigned int)(mix(&seed) % 80);
}

static void victim_traffic(struct flow *f)
{
	for (unsigned int turn = 0; turn < 100 && !f->failed; turn++) {
		if (turn == fate.turns)
			reach(STEP_TRAFFIC);
		flow_post(f);
		if (!flows_poll(f->cq, &f, 1))
			sched_yield();
	}
}

void victim_main(int sock, uint64_t seed, unsigned int kinds)
{
	struct end e;
	struct flow f = {.end = &e, .seed = seed | 1, .kinds = kinds};
	struct hello me;

	choose_fate(seed);
	reach(STEP_START);
	end_open(&e);
	f.buffer = e.buffer;
	reach(STEP_OPEN);
	f.cq = ibv_create_cq(e.ctx, 64, NULL, NULL, 0);
	f.qp = create_qp(&e, f.cq);
	reach(STEP_QP);
	me = hello_of(&f);
	if (write(sock, &me, sizeof(me)) != sizeof(me) ||
	    read(sock, &f.peer, sizeof(f.peer)) != sizeof(f.peer))
		exit(1);
	to_init(f.qp);
	post_receives(&f);
	reach(STEP_INIT);
	to_rtr(f.qp, &f.peer);
	reach(STEP_RTR);
	to_rts(f.qp, TIMEOUT);
	reach(STEP_RTS);
	victim_traffic(&f);
	reach(STEP_DESTROY);
	ibv_destroy_qp(f.qp);
	ibv_destroy_cq(f.cq);
	reach(STEP_CLOSE);
	end_close(&e);
	exit(failures() ? 1 : 0);
}
