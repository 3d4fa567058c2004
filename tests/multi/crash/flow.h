/* SPDX-License-Identifier: MIT */
/* Traffic of one queue pair: what it posts, and that what comes back is right. */
#ifndef TEST_CRASH_FLOW_H
#define TEST_CRASH_FLOW_H

#include <stdbool.h>

#include "crash/end.h"

enum kind { KIND_SEND = 1, KIND_WRITE = 2, KIND_READ = 4, KIND_ATOMIC = 8 };

/* Traffic of one queue pair. */
struct flow {
	struct end *end;
	uint8_t *buffer; /* its part of the end's memory */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct hello peer;
	uint64_t seed;	    /* of the patterns we send; the peer's is seed ^ 1 */
	unsigned int kinds; /* enum kind: what we post */
	uint64_t sent, sends_done, rdma, rdma_done, receives, received;
	uint64_t messages; /* arrived with success */
	bool failed, stop; /* stop: post nothing more */
	enum ibv_wc_status first_error;
};

/* The next pseudo-random number of that state. */
uint64_t mix(uint64_t *state);

/* What the peer has to know, before the connection. */
struct hello hello_of(const struct flow *f);

/* Receives as many as may be outstanding; one SEND; or what @kinds says and the windows permit. */
void post_receives(struct flow *f);
void post_send(struct flow *f);
void flow_post(struct flow *f);

/* Take what is in the CQ, which several flows may share. Return: the number of completions */
int flows_poll(struct ibv_cq *cq, struct flow **flows, int count);

/* Nothing of it is under way, but receives. */
bool flow_idle(const struct flow *f);

#endif
