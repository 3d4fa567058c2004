/* SPDX-License-Identifier: MIT */
/*
 * Continuous traffic: another process writes to or reads from one place of this process's memory
 * until it is told to stop or a request fails. Each WRITE fills all words with one number, which
 * counts up from request to request. A READ checks that all words of a packet are equal.
 */
#ifndef TEST_FLOOD_H
#define TEST_FLOOD_H

#include "lib/side.h"
#include "lib/spawn.h"

#define FLOOD_PACKET 1024u /* bytes: the path MTU of its connection */

struct flood_work {
	enum ibv_wr_opcode opcode; /* RDMA_WRITE, RDMA_READ, ATOMIC_FETCH_AND_ADD or ATOMIC_WRITE */
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t bytes; /* multiple of 8 */
};

struct flood_report {
	uint64_t done;		   /* successful requests */
	uint64_t torn;		   /* packets of READs with differing words */
	enum ibv_wc_status status; /* SUCCESS: it was stopped */
};

struct flood {
	struct spawned process;
	struct side *target;
	int qp;		       /* of the target */
	struct node_link link; /* for the target's end */
	bool working;
};

/*
 * Runs the main loop and never returns if this process was started as a flood agent. Call it first
 * in main().
 */
void flood_agent_main(int argc, char **argv);

/* Start the process and connect it to a new queue pair @qp of @target, a side in this process. */
void flood_start(struct flood *f, struct side *target, int qp);
/* Connect again after a failure. Moves both queue pairs through RESET. */
void flood_reconnect(struct flood *f);
/* Start the traffic. Returns when the first request is complete. */
void flood_go(struct flood *f, const struct flood_work *work);
/* Has a request failed? Does not wait. */
bool flood_failed(struct flood *f);
/* Stop the traffic unless it has failed. Return: what was done since flood_go(). */
struct flood_report flood_stop(struct flood *f);
/* Wait until a request fails, without a time limit. */
struct flood_report flood_until_failure(struct flood *f);
void flood_end(struct flood *f);

#endif
