/* SPDX-License-Identifier: MIT */
/*
 * What the tests of messages that both sides copy (test_coop_copy*.c) share: two sides with shared
 * memory, and what the other process does meanwhile.
 */
#ifndef TEST_ASSIST_FIXTURE_H
#define TEST_ASSIST_FIXTURE_H

#include "lib/expect.h"
#include "lib/side.h"

#define PATIENCE   20000u	/* ms for a completion */
#define FROM_AT	   (1ul << 20)	/* offsets in the arenas: the source, */
#define TO_AT	   (1ul << 20)	/* and the receive buffer */
#define LARGE	   (4ul << 20)	/* bytes of a message that takes its time */
#define ASSIST_MIN (256u << 10) /* what the library shares out is at least as long, */
#define PIECE	   (64u << 10)	/* and so long is a piece */

extern struct side a, b; /* in this process, and in another */

/* What the other process can be told to do: arg[0] of a job; with arg[1]: */
enum coop_job {
	JOB_POLL, /* so many receives, successful ones. Result: how many came */
	JOB_SEND, /* LARGE bytes so many times on queue pair 0. Result: how many were successful */
	JOB_MAPPED,    /* Result: bytes that it has mapped of other processes' memory */
	JOB_PROTECT,   /* the second half of the receive buffer may only be read (1), or also be
			  written (0) */
	JOB_OWN_OPEN,  /* memory apart from the arena is registered, and a receive posted to it on
			  that queue  pair. Result: errno value */
	JOB_OWN_CLOSE, /* as soon as something arrives there, while a thread polls, deregister it.
			  Result: 0; or EBUSY: it was written to afterwards; or another errno value
			*/
};

uint64_t coop_work(struct side *s, enum coop_job what, uint64_t arg); /* and wait for it */
void coop_begin(struct side *s, enum coop_job what, uint64_t arg);
/* coop_begin(), and wait until it has polled: JOB_POLL or JOB_OWN_CLOSE. */
void coop_begin_polling(struct side *s, enum coop_job what, uint64_t arg);

/* Open both sides, connect queue pair 0 of both (CQ 0 for sends, 1 for receives),
 * and call
 * @run; not under ThreadSanitizer. Return: exit status for main() */
int coop_test(int argc, char **argv, void (*run)(void));

/* Post a SEND of a's on that queue pair, and wait. Return: its status */
enum ibv_wc_status coop_send(int qp, uint64_t from, uint32_t bytes);

#endif
