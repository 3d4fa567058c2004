/* SPDX-License-Identifier: MIT */
#include "hardship/victims.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hardship/life.h"
#include "lib/expect.h"
#include "lib/spawn.h"
#include "lib/wait.h"
#include "spoiled/gear.h"

#define VICTIMS	    3
#define LIFE_US	    60000u /* the longest, if it is killed */
#define STARTING_US 12000u /* half of the deaths are this early: while it opens and connects */
#define PAUSE_US    20000u /* the longest between two stops */
#define STOP_MIN_US 1000u

struct victim {
	struct spawned process;
	uint64_t next_ns; /* when something happens to it */
	bool stopped, waiting;
	struct gear_info info; /* valid if it waits for a partner */
};

uint64_t stop_max_ms = 50;

static struct victim victims[VICTIMS];
static struct chance chance;

static void later(struct victim *v, uint64_t us)
{
	v->next_ns = now_ns() + us * 1000;
}

static void be_born(struct victim *v)
{
	uint64_t seed = rnd(&chance, 0);

	v->waiting = v->stopped = false;
	spawn_self(&v->process, LIFE_WORD);
	spawn_send(v->process.sock, &seed, sizeof(seed));
}

static void expect_alive(struct victim *v)
{
	int status = 0;

	if (!EXPECT(waitpid(v->process.pid, &status, WNOHANG) == 0,
		    "a victim ended by itself with status 0x%x", status))
		DIE("a victim is missing");
}

/* --- partners ----------------------------------------------------------------------- */

static void introduce(struct victim *v, struct victim *w)
{
	v->waiting = w->waiting = false;
	(void)!write(v->process.sock, &w->info, sizeof(w->info));
	(void)!write(w->process.sock, &v->info, sizeof(v->info));
}

/* Whoever has opened is connected with the next one who does. */
static void make_pairs(void)
{
	struct victim *alone = NULL;

	for (struct victim *v = victims; v < victims + VICTIMS; v++) {
		if (!v->stopped && spawn_pending(v->process.sock)) {
			expect_alive(v);
			spawn_receive(v->process.sock, &v->info, sizeof(v->info));
			v->waiting = true;
		}
		if (v->waiting && alone)
			introduce(v, alone);
		else if (v->waiting)
			alone = v;
	}
}

/* --- what happens to them ----------------------------------------------------------- */

static void arrange_death(struct victim *v)
{
	later(v, rnd(&chance, one_in(&chance, 2) ? STARTING_US : LIFE_US));
}

static void die(struct victim *v)
{
	expect_alive(v);
	spawn_kill(&v->process);
	be_born(v);
	arrange_death(v);
}

static void stop_or_go_on(struct victim *v)
{
	v->stopped = !v->stopped;
	kill(v->process.pid, v->stopped ? SIGSTOP : SIGCONT);
	later(v,
	      v->stopped ? rnd(&chance, stop_max_ms * 1000) + STOP_MIN_US : rnd(&chance, PAUSE_US));
}

/* Let it happen @count times. */
static void strike(uint64_t count, void (*what)(struct victim *))
{
	const unsigned int before = failures();

	while (count > 0 && failures() == before) {
		for (struct victim *v = victims; v < victims + VICTIMS && count > 0; v++) {
			if (now_ns() < v->next_ns)
				continue;
			what(v);
			count--;
		}
		make_pairs();
		wait_moment();
	}
}

void victims_kill(uint64_t count, uint64_t seed)
{
	chance.state = seed;
	for (struct victim *v = victims; v < victims + VICTIMS; v++) {
		be_born(v);
		arrange_death(v);
	}
	strike(count, die);
	for (struct victim *v = victims; v < victims + VICTIMS; v++)
		spawn_kill(&v->process);
}

void victims_stop(uint64_t count, uint64_t seed)
{
	chance.state = seed;
	for (struct victim *v = victims; v < victims + VICTIMS; v++) {
		be_born(v);
		later(v, rnd(&chance, PAUSE_US));
	}
	strike(2 * count, stop_or_go_on); /* each stop ends */
	for (struct victim *v = victims; v < victims + VICTIMS; v++) {
		kill(v->process.pid, SIGCONT);
		shutdown(v->process.sock, SHUT_WR);
		spawn_wait(&v->process);
	}
}
