/* SPDX-License-Identifier: MIT */
/*
 * Single requests that may be refused. After a refusal both queue pairs go through RESET, so each
 * request finds the same state.
 */
#ifndef TEST_PROBE_H
#define TEST_PROBE_H

#include "lib/side.h"

#define PROBE_AT       0x10000u /* offset of the requester's buffer in its arena */
#define PROBE_PATIENCE 20000u	/* ms to wait for a completion */
#define PROBE_SEED     0x70726f6265u
#define PROBE_ALL                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Create and connect queue pair @qp of both sides, with CQ 0 for sends and CQ 1 for receives. */
void probe_open(struct side *from, struct side *to, int qp);
void probe_close(struct side *from, struct side *to, int qp);
/* Move both from RESET to RTS again. Consumes asynchronous events and drops completions. */
void probe_reconnect(struct side *from, struct side *to, int qp);

/*
 * One request from queue pair @qp of @from to memory of @to. A WRITE carries pattern PROBE_SEED; a
 * READ stores at PROBE_AT; atomics add 1 and store the old value there. Return: the completion's
 * status.
 */
enum ibv_wc_status probe(struct side *from, struct side *to, int qp, enum ibv_wr_opcode op,
			 uint64_t addr, uint32_t rkey, uint32_t bytes);

/* The same with any request. */
enum ibv_wc_status probe_request(struct side *from, struct side *to, int qp,
				 const struct node_send *request);

/* So many SENDs of no bytes, signalled and with @flags, each of which is received; the receiver's
 * completions are left to be polled, and whatever event they make at once is sent. */
void probe_messages(struct side *from, struct side *to, int qp, int count, unsigned int flags);

/* probe(), and an expectation of what comes of it. */
#define EXPECT_PROBE(from, to, qp, op, addr, rkey, bytes, want)                       \
	({                                                                            \
		enum ibv_wc_status got_ = probe(from, to, qp, op, addr, rkey, bytes); \
		EXPECT(got_ == (want), "%s ends as '%s', not '%s'", probe_name(op),   \
		       ibv_wc_status_str(got_), ibv_wc_status_str(want));             \
	})

const char *probe_name(enum ibv_wr_opcode op);

#endif
