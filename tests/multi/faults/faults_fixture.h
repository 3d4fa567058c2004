/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a request that cannot be done: the requester's completion, the responder's
 * receive, the states of both queue pairs, the asynchronous event, and that nobody else notices.
 * The tests of it (test_faults_*.c) have rows, and run each between two processes, between two
 * contexts of one process, and within one context.
 */
#ifndef TEST_FAULTS_FIXTURE_H
#define TEST_FAULTS_FIXTURE_H

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/request.h"
#include "lib/side.h"

#define LOCAL_AT  0x1000u  /* offsets in the arenas: the requester's buffer, */
#define REMOTE_AT 0x2000u  /* the responder's memory, */
#define RECV_AT	  0x3000u  /* its receive buffer, */
#define SPARE_AT  0x18000u /* and the second one */
#define WATCHED	  0x20000u /* bytes of each arena that are filled with a pattern */
#define PATIENCE  20000u   /* ms for a completion */
#define ANY	  (-2)	   /* for a wanted value that may be anything */
#define NONE	  (-1)
#define FULL_END  NODE_ARENA

struct fault_row {
	const char *name;
	enum ibv_qp_type service; /* 0: RC */
	enum ibv_wr_opcode op;
	unsigned int flags;
	uint32_t bytes;
	int elements; /* 0: one; else @bytes in each of so many; -1: no element */
	enum key lkey, rkey, recv_key;
	int64_t local_by, remote_by, recv_by; /* added to the usual addresses */
	int receives;			      /* how many are posted: 0 .. 2 */
	uint32_t recv_bytes;		      /* 0: as many as are sent; -1: none */
	unsigned int denied;		      /* access flags the responder's queue pair lacks */
	bool no_rd_atomic, no_dest_rd_atomic;
	bool no_responder; /* its queue pair is in RESET */
	bool later;	   /* the good request is posted when the faulty one has completed */
	/* what must come of it */
	int requester, requester2; /* status, and another that is right, too */
	int receive, receive2;	   /* status of the first receive; NONE: it stays posted */
	bool responder_fails;
	int event, event2;
	bool lost;	 /* the message, of which the requester does not hear */
	bool may_write;	 /* the responder's memory may have been changed, */
	bool must_write; /* or has been */
};

extern struct side a, b;	/* the requester and the responder */
extern const char *faults_mode; /* where they are, for the names of rows */

/* The test: call @rows with both sides in each of the three ways. Return: exit status for main().
 */
int faults_test(int argc, char **argv, void (*rows)(void));

/* Connect the two, fill their memory, and post the receives. Return: the faulty request */
struct node_send fault_begin(const struct fault_row *r);

/* Nobody else has noticed. The connection ends. */
void fault_end(void);

/* The whole row: the faulty request with a good one behind it, and what comes of them. */
void fault_run(const struct fault_row *r);

#endif
