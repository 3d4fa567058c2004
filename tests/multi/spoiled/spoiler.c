/* SPDX-License-Identifier: MIT */
#include "spoiled/spoiler.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/spawn.h"
#include "lib/wait.h"
#include "spoiled/flips.h"

#define NOTE_EVERY 256u
#define LIFE_LIMIT 60 /* seconds */

static struct gear gear;
static struct flips flips;
static uint64_t most;
static int sock;
static bool going;
static _Atomic bool quiet; /* while this process's own objects are made anew */

/* Does not wait: the other process may be busy, or gone. Return: has it been said? */
static bool say(bool connected, uint64_t count)
{
	struct spoiler_note note = {.connected = connected, .flips = count, .info = gear.info};

	return send(sock, &note, sizeof(note), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(note);
}

/* Is it time to tell? The first is told at once: a spoiler may not live to its next ones. */
static bool is_due(uint64_t done, uint64_t told)
{
	return told == 0 || done - told >= NOTE_EVERY || done == most;
}

__attribute__((noreturn)) static void *flip_all(void *unused)
{
	uint64_t done = 0, told = 0;

	for (;;) {
		if (done == most && told < done && say(false, done - told))
			told = done;
		if (quiet || done == most) {
			wait_moment();
			continue;
		}
		flips_one(&flips);
		done++;
		if (is_due(done, told) && say(false, done - told))
			told = done;
	}
}

static void begin(const struct spoiler_begin *b)
{
	gear.chance.state = b->seed + 1;
	flips_begin(&flips, b->seed);
	flips_know(&flips, b->value);
	most = b->most;
	NEED(gear_connect(&gear, &b->info) == 0 && say(true, 0));
}

static void go(void)
{
	pthread_t thread;

	going = true;
	NEED(pthread_create(&thread, NULL, flip_all, NULL) == 0);
}

static void connect_again(const struct spoiler_begin *order)
{
	quiet = true;
	if (gear_reset(&gear) || gear_connect(&gear, &order->info) || !say(true, 0))
		_exit(0);
	quiet = false;
}

static void obey(void)
{
	struct spoiler_begin order;

	if (spawn_receive_any(sock, &order, sizeof(order)) != sizeof(order))
		_exit(0);
	if (order.order == SPOILER_BEGIN)
		begin(&order);
	else if (order.order == SPOILER_GO)
		go();
	else
		connect_again(&order);
}

void spoiler_main(int argc, char **argv)
{
	sock = spawn_role(argc, argv, SPOILER_WORD);
	if (sock < 0)
		return;
	time_limit(LIFE_LIMIT);
	/* How it ends is of no interest. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	(void)!freopen("/dev/null", "w", stderr);
	gear_open(&gear, 0);
	NEED(say(false, 0));
	for (;;) {
		if (spawn_pending(sock))
			obey();
		else if (going)
			gear_step(&gear);
	}
}
