/* SPDX-License-Identifier: MIT */
/*
 * Each thread goes round and round: post, poll, connect, register, open, destroy. It is cancelled
 * at a random instant, and ends at the only cancellation point that is its own; a verb that was
 * another one would stay half done, and the next thread would find what it holds taken.
 */
#include "hardship/cancelled.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/spawn.h"
#include "lib/wait.h"
#include "spoiled/gear.h"

#define WORD	     "--cancelled"
#define BUFFER_BYTES 65536u
#define MOMENT_US    500u

struct order {
	uint64_t count, seed;
};

static struct gear gear;
static uint8_t buffer[BUFFER_BYTES];
static _Atomic uint64_t turns;

static void transfer(void)
{
	for (int i = 0; i < 8; i++)
		gear_step(&gear);
}

static void reconnect(void)
{
	EXPECT(gear_reset(&gear) == 0 && gear_connect(&gear, &gear.info) == 0, "connect");
}

static void reg(void)
{
	struct ibv_mr *mr = ibv_reg_mr(gear.pd, buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);

	EXPECT(mr && ibv_dereg_mr(mr) == 0, "register");
}

static void open_and_destroy(void)
{
	struct gear other;

	gear_open(&other, 1);
	gear_close(&other);
}

static void *turn_for_ever(void *arg)
{
	static void (*const acts[])(void) = {transfer, reconnect, reg, open_and_destroy};

	for (;; pthread_testcancel()) {
		acts[rnd(&gear.chance, COUNT_OF(acts))]();
		atomic_fetch_add(&turns, 1);
	}
	return NULL;
}

static void cancel_one(struct chance *chance)
{
	uint64_t before = atomic_load(&turns);
	pthread_t thread;
	void *result;

	NEED(pthread_create(&thread, NULL, turn_for_ever, NULL) == 0);
	while (atomic_load(&turns) == before)
		sched_yield();
	let_go_on((unsigned int)rnd(chance, MOMENT_US));
	pthread_cancel(thread);
	pthread_join(thread, &result);
	EXPECT(result == PTHREAD_CANCELED, "a thread ended by itself");
}

void cancelled_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);
	struct chance chance;
	struct order order;

	if (sock < 0)
		return;
	spawn_receive(sock, &order, sizeof(order));
	chance.state = order.seed;
	gear_open(&gear, order.seed);
	reconnect();
	while (order.count-- > 0 && failures() == 0)
		cancel_one(&chance);
	gear_close(&gear);
	exit(failures() ? 1 : 0);
}

void cancelled_run(uint64_t count, uint64_t seed)
{
	struct order order = {count, seed};
	struct spawned s;

	spawn_self(&s, WORD);
	spawn_send(s.sock, &order, sizeof(order));
	spawn_wait(&s);
}
