/* SPDX-License-Identifier: MIT */
/*
 * A thread reads a file into the arena by the io_uring's fixed buffer, another one has the
 * partner's memory READ into it; each checks each of its messages, so a page that was replaced
 * under the kernel or the device shows. The rest of the arena is quiet: the child must find there
 * what was there at the fork, and what it stores the parent must not see.
 */
#include "hardship/forked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/ring.h"
#include "lib/side.h"
#include "lib/spawn.h"
#include "lib/wait.h"

#define WORD	    "--forked"
#define PATIENCE_MS 30000u
#define BYTES	    65536u
#define RING_AT	    0u /* in the arena */
#define LANDING_AT  ((uint64_t)1 << 20)
#define QUIET_AT    ((uint64_t)2 << 20)
#define SOURCE_AT   ((uint64_t)1 << 20) /* in the partner's */
#define SOURCE_SEED 0x736f75u

static struct side here, partner;
static atomic_bool stopping;
static _Atomic uint64_t ring_turns, read_turns;

static void *use_ring(void *arg)
{
	static uint8_t message[BYTES];
	uint8_t *at = here.node->arena + RING_AT;

	for (uint64_t n = 1; !atomic_load(&stopping); n++) {
		pattern_fill(message, BYTES, n, 0);
		ring_writes(at, message, BYTES);
		EXPECT(pattern_check(at, BYTES, n, 0) < 0, "the io_uring's read %lu is lost", n);
		atomic_store(&ring_turns, n);
	}
	return NULL;
}

static void *use_rdma(void *arg)
{
	struct node_send read =
		side_rdma_to(IBV_WR_RDMA_READ, side_sge(&here, KEY_FULL, LANDING_AT, BYTES),
			     &partner, SOURCE_AT);
	uint8_t *at = here.node->arena + LANDING_AT;
	struct ibv_wc wc;

	for (uint64_t n = 1; !atomic_load(&stopping); n++) {
		memset(at, 0, BYTES);
		node_post_send(here.node, 0, &read, 1);
		EXPECT(node_poll(here.node, 0, 1, PATIENCE_MS, &wc) == 1 &&
			       wc.status == IBV_WC_SUCCESS,
		       "READ %lu", n);
		EXPECT(pattern_check(at, BYTES, SOURCE_SEED, 0) < 0, "READ %lu is lost", n);
		atomic_store(&read_turns, n);
	}
	return NULL;
}

static void fork_once(uint64_t n)
{
	uint8_t *quiet = here.node->arena + QUIET_AT;
	int status = 0;
	pid_t child;

	pattern_fill(quiet, BYTES, n, 0);
	child = fork();
	if (child == 0) {
		bool right = pattern_check(quiet, BYTES, n, 0) < 0;

		memset(here.node->arena, 0xee, NODE_ARENA);
		_exit(!right);
	}
	NEED(child > 0);
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(status == 0, "child %lu has other memory: status 0x%x", n, status);
	EXPECT(pattern_check(quiet, BYTES, n, 0) < 0, "child %lu wrote to its parent's memory", n);
}

static void open_both(void)
{
	struct node_qp_spec spec = spec_default();

	side_start(&partner);
	side_open(&here, NULL);
	pair_create(&here, 0, &partner, 0, &spec);
	pair_connect(&here, 0, NULL, &partner, 0, NULL);
	side_fill(&partner, SOURCE_AT, BYTES, SOURCE_SEED, 0);
	NEED(ring_open(here.node->arena + RING_AT, BYTES));
}

static void fork_often(uint64_t count)
{
	pthread_t threads[2];

	NEED(pthread_create(&threads[0], NULL, use_ring, NULL) == 0);
	NEED(pthread_create(&threads[1], NULL, use_rdma, NULL) == 0);
	NEED(WAIT_UNTIL((ring_turns > 0 && read_turns > 0) || failures(), PATIENCE_MS));
	for (uint64_t n = 1; n <= count && failures() == 0; n++)
		fork_once(n);
	atomic_store(&stopping, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	EXPECT(ring_turns > 0 && read_turns > 0, "%lu reads of the io_uring, %lu READs", ring_turns,
	       read_turns);
}

void forked_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);
	uint64_t count;

	if (sock < 0)
		return;
	spawn_receive(sock, &count, sizeof(count));
	open_both();
	fork_often(count);
	ring_close();
	pair_destroy(&here, 0, &partner, 0);
	side_stop(&partner);
	side_stop(&here);
	exit(failures() ? 1 : 0);
}

bool forked_possible(void)
{
	void *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool possible;

	NEED(page != MAP_FAILED);
	possible = ring_open(page, BYTES);
	if (possible)
		ring_close();
	munmap(page, BYTES);
	return possible;
}

void forked_run(uint64_t count)
{
	struct spawned s;

	spawn_self(&s, WORD);
	spawn_send(s.sock, &count, sizeof(count));
	spawn_wait(&s);
}
