/* SPDX-License-Identifier: MIT */
/*
 * Traffic without pause: another process that writes to or reads from one place of this one's
 * memory until it is told to stop, or until a request fails. What a WRITE carries is one number in
 * every word, counting up from request to request; of a READ it looks whether each packet's worth
 * of words is equal.
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
	uint64_t torn;		   /* packets of READs whose words differ */
	enum ibv_wc_status status; /* SUCCESS: it was stopped */
};

struct flood {
	struct spawned process;
	struct side *target;
	int qp;		       /* of the target */
	struct node_link link; /* for the target's end */
	bool working;
};

/* Its main loop, if this process has been started as one: does not return then. Called first in
 * main(). */
void flood_agent_main(int argc, char **argv);

/* Start the process, and connect it with a new queue pair @qp of @target, a side in this process.
 */
void flood_start(struct flood *f, struct side *target, int qp);
/* Once more, after a failure. Both queue pairs through RESET. */
void flood_reconnect(struct flood *f);
/* Returns when the first request has been completed. */
void flood_go(struct flood *f, const struct flood_work *work);
/* Has a request failed? Does not wait. */
bool flood_failed(struct flood *f);
/* Tell it to stop if it has not failed. Return: what it did since flood_go() */
struct flood_report flood_stop(struct flood *f);
/* Wait until a request fails; as long as it takes. */
struct flood_report flood_until_failure(struct flood *f);
void flood_end(struct flood *f);

#endif
