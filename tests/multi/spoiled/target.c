/* SPDX-License-Identifier: MIT */
#include "spoiled/target.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/side.h"
#include "lib/spawn.h"
#include "lib/wait.h"
#include "spoiled/flips.h"
#include "spoiled/spoiler.h"

#define VERB_MS	   30000u /* far above all timeouts, for busy cores */
#define LIFE_MS	   600u	  /* of a spoiler */
#define ANSWER_MS  1000u  /* until one counts as hung */
#define STEPS	   64u	  /* between two looks at what else is to be done */
#define LOOK_MS	   30000u
#define QP_HEALTHY 0

static struct target_order order;
static struct gear gear;
static uint64_t identity[3];
static _Atomic pid_t spoiler; /* 0: none, or it is being ended */
static uint64_t flips_done, lives, reconnects, healthy_done;
static uint64_t end_ms;

/* --- watching ---------------------------------------------------------------------- */

static void show_stack(int signal)
{
	void *at[64];

	backtrace_symbols_fd(at, backtrace(at, 64), STDOUT_FILENO);
	_exit(1);
}

/*
 * A change of state waits for whoever executes for the queue pair. A spoiler that hangs over its
 * own nonsense meanwhile is killed, as one would have to. No other verb waits for that.
 */
static void kill_if_waited_for(uint64_t since)
{
	const char *name = verb_name;
	pid_t pid = spoiler;

	if (pid && now_ms() > since + ANSWER_MS && name && strstr(name, "_qp(g->qp[i], ") &&
	    verb_since_ms == since)
		kill(pid, SIGKILL);
}

static void *watch(void *main_thread)
{
	for (;;) {
		uint64_t since = verb_since_ms;

		if (since)
			kill_if_waited_for(since);
		if (since && now_ms() > since + VERB_MS && verb_since_ms == since) {
			printf("FAIL --seed %lu, spoiler %lu: %s has not returned in %u ms\n",
			       order.seed, lives, verb_name, VERB_MS);
			fflush(stdout);
			pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
		}
		usleep(20000);
	}
	return NULL;
}

static void watch_begin(void)
{
	static pthread_t main_thread;
	pthread_t thread;

	main_thread = pthread_self();
	signal(SIGUSR1, show_stack);
	NEED(pthread_create(&thread, NULL, watch, &main_thread) == 0);
}

/* --- a spoiler's life -------------------------------------------------------------- */

static void heard(const struct spoiler_note *note)
{
	flips_done += note->flips;
}

/* The next note that is no mere count. Return: false: none in time, or the process is gone */
static bool await(struct spawned *s, struct spoiler_note *note, bool connected, unsigned int ms)
{
	uint64_t until = now_ms() + ms;

	while (now_ms() < until) {
		ssize_t n = recv(s->sock, note, sizeof(*note), MSG_DONTWAIT);

		if (n == sizeof(*note)) {
			heard(note);
			if (note->connected == connected && note->flips == 0)
				return true;
		} else if (n == 0 || errno != EAGAIN) {
			return false;
		} else {
			wait_moment();
		}
	}
	return false;
}

/* Counts what has been said so far. Return: false: the process is gone */
static bool hear(struct spawned *s)
{
	struct spoiler_note note;
	ssize_t n;

	while ((n = recv(s->sock, &note, sizeof(note), MSG_DONTWAIT)) == sizeof(note))
		heard(&note);
	return n != 0 && errno == EAGAIN;
}

static bool is_broken(void)
{
	for (int i = 0; i < QP_N; i++)
		if (gear.broken[i])
			return true;
	return false;
}

/* The peer's requests may have failed the queue pairs in between. */
static void connect_to(const struct gear_info *peer)
{
	const struct gear_info copy = *peer;

	if (gear_connect(&gear, &copy))
		memset(gear.broken, 1, sizeof(gear.broken));
}

static bool connect_again(struct spawned *s)
{
	struct spoiler_begin again = {.order = SPOILER_RECONNECT, .info = gear.info};
	struct spoiler_note note;
	int err = gear_reset(&gear);

	reconnects++;
	if (err == EBUSY) /* the spoiler has a right, and hangs: it is ended */
		return false;
	NEED(err == 0);
	if (send(s->sock, &again, sizeof(again), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ||
	    !await(s, &note, true, ANSWER_MS))
		return false;
	connect_to(&gear.peer);
	return true;
}

static void guards(void)
{
	if (!gear_guards_intact(&gear))
		DIE("--seed %lu, spoiler %lu: bytes outside of the regions have changed",
		    order.seed, lives);
}

static void traffic(struct spawned *s)
{
	uint64_t until = now_ms() + LIFE_MS;

	while (now_ms() < until && hear(s) && flips_done < order.flips) {
		for (unsigned int i = 0; i < STEPS; i++)
			gear_step(&gear);
		guards();
		if (is_broken() && !connect_again(s))
			break;
	}
}

static void live(void)
{
	struct spoiler_begin begin = {
		.order = SPOILER_BEGIN, .seed = order.seed + lives, .info = gear.info};
	struct spoiler_note note;
	struct spawned s;

	begin.most = order.flips - flips_done;
	memcpy(begin.value, identity, sizeof(identity));
	spawn_self(&s, SPOILER_WORD);
	spoiler = s.pid;
	if (!await(&s, &note, false, LOOK_MS))
		DIE("the other process does not begin");
	spawn_send(s.sock, &begin, sizeof(begin));
	if (!await(&s, &note, true, LOOK_MS))
		DIE("the other process does not connect");
	connect_to(&note.info);
	begin.order = SPOILER_GO;
	(void)send(s.sock, &begin, sizeof(begin), MSG_NOSIGNAL);
	traffic(&s);
	spoiler = 0;
	kill(s.pid, SIGKILL);
	waitpid(s.pid, NULL, 0);
	hear(&s);
	close(s.sock);
	NEED(gear_reset(&gear) == 0);
	guards();
}

/* --- a process that is in order ---------------------------------------------------- */

static struct side here, healthy;

static void healthy_start(void)
{
	side_open(&here, gear.ctx);
	side_start(&healthy);
	pair_create(&here, QP_HEALTHY, &healthy, QP_HEALTHY, NULL);
	pair_connect(&here, QP_HEALTHY, NULL, &healthy, QP_HEALTHY, NULL);
}

static void healthy_look(void)
{
	struct node_send s = side_rdma_to(IBV_WR_RDMA_WRITE,
					  side_sge(&here, KEY_FULL, 0, sizeof(lives)), &healthy, 0);
	struct ibv_wc wc;

	side_poke(&here, 0, lives);
	NEED(side_post_send(&here, QP_HEALTHY, &s, 1).ret == 0);
	NEED(side_poll(&here, 0, 1, LOOK_MS, &wc) == 1);
	EXPECT(wc.status == IBV_WC_SUCCESS && side_peek(&healthy, 0) == lives,
	       "--seed %lu, spoiler %lu: a healthy connection: '%s'", order.seed, lives,
	       ibv_wc_status_str(wc.status));
	healthy_done++;
}

static void healthy_end(void)
{
	pair_destroy(&here, QP_HEALTHY, &healthy, QP_HEALTHY);
	side_stop(&healthy);
	side_stop(&here);
}

/* --- */

static void run(void)
{
	row("--seed %lu", order.seed);
	gear_open(&gear, order.seed);
	flips_identity(identity);
	watch_begin();
	healthy_start();
	end_ms = order.seconds ? now_ms() + order.seconds * 1000 : UINT64_MAX;
	for (lives = 0; flips_done < order.flips && now_ms() < end_ms; lives++) {
		live();
		healthy_look();
	}
	printf("%lu flips in %lu spoilers, %lu connected again; %lu requests completed, %lu of "
	       "them failed\n",
	       flips_done, lives, reconnects, gear.completed, gear.failed);
	EXPECT(flips_done > 0 && healthy_done == lives && gear.completed > gear.failed / 2,
	       "too little has happened");
	healthy_end();
	gear_close(&gear);
}

void target_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, TARGET_WORD);

	if (sock < 0)
		return;
	spawn_receive(sock, &order, sizeof(order));
	run();
	exit(failures() != 0);
}
