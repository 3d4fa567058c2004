/* SPDX-License-Identifier: MIT */
/*
 * What the tests of tunneled atomics (test_tunneled_*.c) share: regions for them in this process
 * and in another one, WRITEs to these by every way, and a block of bytes that is looked at by
 * another key.
 */
#ifndef TEST_TUNNELED_FIXTURE_H
#define TEST_TUNNELED_FIXTURE_H

#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/extended.h"
#include "lib/probe.h"

#define QP_PEER	   0	    /* to the other process */
#define QP_SELF	   1	    /* of this process with itself */
#define QP_UC	   2	    /* likewise, unreliable */
#define BLOCK_AT   0x30000u /* of the target in the arenas */
#define BLOCK	   64u	    /* its bytes */
#define OPERAND_AT 16u	    /* in the block */
#define SOURCE_AT  0x40000u
#define HOLE_AT	   0x100000u
#define PAGE	   4096u
#define COMMAND	   ((uint32_t)sizeof(struct anyverbs_tunneled_atomic))
#define SUCCESS	   IBV_WC_SUCCESS
#define TUNNELED   IBV_EXP_ACCESS_TUNNELED_ATOMIC
#define LOCAL	   (TUNNELED | IBV_EXP_ACCESS_LOCAL_WRITE)
#define RIGHTS                                                              \
	(LOCAL | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)

extern struct side a, b; /* a is here, and asks */
extern struct node *n;	 /* a's */

enum kind {
	KIND_PLAIN,
	KIND_ODP,
	KIND_IMPLICIT,
	KIND_NO_WRITE,
	KIND_OTHER_PD,
	KIND_TAIL, /* ends with the operand */
	KIND_HOLE, /* on demand, and its last page is not mapped */
	KIND_N
};

/*
 * The test: open both sides, with the device's switch on, and call @run; before, with the switch
 * off and nothing open, @off if that is not NULL. Return: exit status for main()
 */
int tunneled_test(int argc, char **argv, void (*off)(void), void (*run)(void));

/* In this process: KIND_PLAIN, KIND_ODP and KIND_IMPLICIT are there. In the other one, all kinds:
 * their rkeys. */
extern struct ibv_mr *made[KIND_N];
extern uint32_t rkey[KIND_N];

/* The rkey of a new region of that kind in a process that takes part in the test. */
uint32_t ask(struct side *s, enum kind kind);

/* --- one WRITE ------------------------------------------------------------------- */

enum way { WAY_WRITE, WAY_INLINE, WAY_LIST, WAY_IMM, WAY_EXP, WAY_N };

extern const char *const way_name[];

struct target {
	const char *name;
	int qp;
	struct side *side; /* whose memory */
	uint32_t rkey;
	uint64_t addr; /* of the block */
};

struct target peer(const char *name, enum kind kind); /* a region of the other process */
struct target self(const char *name, uint32_t key);   /* one of this process */

/* From SOURCE_AT; the completion's status. With immediate data, its receive request is posted and
 * looked at, too. */
enum ibv_wc_status write_payload(const struct target *t, enum way way, uint64_t addr,
				 uint32_t bytes);

/* That request by itself (not WAY_EXP), and its receive completion. */
struct node_send write_request(const struct target *t, enum way way, uint64_t addr, uint32_t bytes);
void expect_immediate(const struct target *t, uint32_t bytes, enum ibv_wc_status want);

/* After an error: both queue pairs through RESET. */
void recover(const struct target *t);

/* QP_UC: of this process with itself. */
void open_uc(void);

/* --- what is written ------------------------------------------------------------- */

struct av_atomic operation(enum av_atomic_op op, uint32_t bytes, uint64_t value);
void put_commands(const struct anyverbs_tunneled_atomic *c, unsigned int count); /* to SOURCE_AT */

/* --- the block, by way of another key, or of none -------------------------------- */

void blank(uint8_t *block);
void set_block(const struct target *t, const uint8_t *block);
void expect_block(const struct target *t, const uint8_t *block);

#endif
