/* SPDX-License-Identifier: MIT */
/*
 * Many processes of many threads each, all sending to all over shared queues: no completion is
 * lost, doubled or out of order. What is expected of each is in lib/hammer.h; here the processes
 * are led through it.
 *
 * HAMMER_SECONDS, HAMMER_PROCESSES and HAMMER_THREADS (of each process) change the size.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/hammer.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"

#define ROLE	  "--hammer"
#define SECONDS	  6u
#define PROCESSES 8u
#define THREADS	  8u
#define SLACK	  180u /* seconds for everything but the hammering */
#define RUN_LIMIT 86400u

/* The stages of the run; every process ends one before any begins the next. */
enum stage { STAGE_CONNECT, STAGE_START, STAGE_STOP, STAGE_SETTLE, STAGE_CLOSE, STAGE_N };

/* A process says that it has ended a stage. */
struct done {
	enum stage stage;
	uint64_t received;
};

/* --- one of the processes -------------------------------------------------------- */

static void run_process(int sock)
{
	static struct hammer_address all[HAMMER_PROCESSES_MAX];
	struct hammer_address own = {.rkey = 0};
	struct hammer_plan plan;
	struct done done = {.received = 0};
	enum stage stage;

	spawn_receive(sock, &plan, sizeof(plan));
	hammer_open(&plan, &own);
	spawn_send(sock, &own, sizeof(own));
	for (done.stage = 0; done.stage < STAGE_N; done.stage++) {
		spawn_receive(sock, &stage, sizeof(stage));
		switch (stage) {
		case STAGE_CONNECT:
			spawn_receive(sock, all, sizeof(all));
			hammer_connect(all);
			break;
		case STAGE_START:
			hammer_start();
			break;
		case STAGE_STOP:
			hammer_stop_sending();
			break;
		case STAGE_SETTLE:
			done.received = hammer_settle();
			break;
		default:
			hammer_close();
		}
		spawn_send(sock, &done, sizeof(done));
	}
}

/* --- the one that leads ---------------------------------------------------------- */

static struct spawned process[HAMMER_PROCESSES_MAX];
static struct hammer_address address[HAMMER_PROCESSES_MAX];

static uint32_t setting(const char *name, uint32_t otherwise, uint32_t least, uint32_t most)
{
	const char *text = getenv(name);
	unsigned long value = text ? strtoul(text, NULL, 10) : otherwise;

	if (value < least || value > most)
		DIE("%s is not from %u to %u", name, least, most);
	return (uint32_t)value;
}

static void start_processes(struct hammer_plan plan)
{
	for (uint32_t i = 0; i < plan.processes; i++) {
		plan.index = i;
		spawn_self(&process[i], ROLE);
		spawn_send(process[i].sock, &plan, sizeof(plan));
	}
	for (uint32_t i = 0; i < plan.processes; i++)
		spawn_receive(process[i].sock, &address[i], sizeof(address[i]));
}

/* All of them through one stage. Return: what they received, together. */
static uint64_t lead(const struct hammer_plan *plan, enum stage stage)
{
	uint64_t received = 0;
	struct done done;

	for (uint32_t i = 0; i < plan->processes; i++) {
		spawn_send(process[i].sock, &stage, sizeof(stage));
		if (stage == STAGE_CONNECT)
			spawn_send(process[i].sock, address, sizeof(address));
	}
	for (uint32_t i = 0; i < plan->processes; i++) {
		spawn_receive(process[i].sock, &done, sizeof(done));
		if (done.stage != stage)
			DIE("process %u is at stage %d, not %d", i, (int)done.stage, (int)stage);
		received += done.received;
	}
	return received;
}

/* Let them work. A process that finds something wrong ends, which ends the run. */
static void let_work(const struct hammer_plan *plan, uint64_t ms)
{
	struct pollfd ends[HAMMER_PROCESSES_MAX];
	uint64_t end = now_ms() + ms;

	for (uint32_t i = 0; i < plan->processes; i++)
		ends[i] = (struct pollfd){.fd = process[i].sock, .events = POLLIN};
	for (uint64_t now = now_ms(); now < end; now = now_ms())
		if (poll(ends, plan->processes, (int)(end - now)) > 0)
			DIE("a process ended");
}

static int shared_table(void)
{
	int fd = memfd_create("table", 0);

	if (fd < 0 || ftruncate(fd, sizeof(struct hammer_table)))
		DIE("no shared memory");
	return fd;
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, ROLE);
	struct hammer_plan plan;
	uint64_t received;
	uint32_t seconds;

	if (sock >= 0) {
		run_process(sock);
		return 0;
	}
	seconds = setting("HAMMER_SECONDS", SECONDS, 1, RUN_LIMIT);
	plan.processes = setting("HAMMER_PROCESSES", PROCESSES, 1, HAMMER_PROCESSES_MAX);
	plan.threads = setting("HAMMER_THREADS", THREADS, 2, HAMMER_THREADS_MAX);
	sandbox_begin(seconds + SLACK);
	plan.table_fd = shared_table();
	row("%u processes of %u threads for %u s", plan.processes, plan.threads, seconds);
	start_processes(plan);
	lead(&plan, STAGE_CONNECT);
	lead(&plan, STAGE_START);
	let_work(&plan, (uint64_t)seconds * 1000);
	lead(&plan, STAGE_STOP);
	received = lead(&plan, STAGE_SETTLE);
	lead(&plan, STAGE_CLOSE);
	for (uint32_t i = 0; i < plan.processes; i++)
		spawn_wait(&process[i]);
	printf("%lu messages\n", received);
	return sandbox_end();
}
