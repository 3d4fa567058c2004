/* SPDX-License-Identifier: MIT */
/*
 * What the tests of memory windows (test_mw_*.c) share: two sides, regions of all kinds for windows
 * to be bound to, the requests of the windows' owner, and what another process finds behind a key.
 */
#ifndef TEST_MW_FIXTURE_H
#define TEST_MW_FIXTURE_H

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define REGION_AT  0x200000u /* offsets in the arena */
#define REGION_LEN 0x10000u
#define TYPE1	   IBV_MW_TYPE_1
#define TYPE2	   IBV_MW_TYPE_2
#define SUCCESS	   IBV_WC_SUCCESS
#define BIND_ERR   IBV_WC_MW_BIND_ERR
#define READ_RIGHT IBV_ACCESS_REMOTE_READ
#define ALL_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define BINDABLE   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

/* Queue pairs 0 and 1 of both sides are connected; and these: */
#define QP_EX	 2 /* with the functions ibv_wr_...() */
#define QP_FLOOD 3 /* for a flood, not created here */
#define QP_SPARE 4 /* to be created and destroyed by a row */

extern struct node *n;	/* a's */
extern uint8_t *memory; /* REGION_LEN bytes of the arena */

enum region {
	R_NONE,
	R_PLAIN,     /* may be bound and written, nothing remote */
	R_REMOTE,    /* the same with all remote rights */
	R_BIND_ONLY, /* may be bound, not written */
	R_NO_BIND,   /* all rights but MW_BIND */
	R_OTHER_PD,
	R_ZERO_BASED,
	R_IOVA,
	R_DEVICE,
	R_NULL,
	R_DEAD, /* deregistered: a copy of what it was */
	R_N
};

extern struct ibv_mr *region[R_N]; /* what each kind stands for; NULL for R_NONE */

/* The test: open all this, call @run, and close it again. Return: exit status for main(). */
int mw_test(int argc, char **argv, void (*run)(void));

uint64_t base_of(enum region r); /* the first address of its keys */

/* --- requests of the owner ------------------------------------------------------- */

struct ibv_mw *window(enum ibv_mw_type type); /* of the domain of queue pairs and regions */
void free_window(struct ibv_mw *mw);

/* What binds @length bytes at @offset of region @r, for ibv_bind_mw() or a request. */
struct ibv_mw_bind_info info_of(enum region r, uint64_t offset, uint64_t length,
				unsigned int access);

/* ibv_bind_mw(), or a request with the new key @rkey; signalled. Return: what the call does */
int call_bind(int qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info);
int post_bind(int qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);

/* The completion of what was posted on @qp; after an error the queue pair is brought back. */
enum ibv_wc_status finish(int qp, enum ibv_wc_opcode opcode);

/* Bind in the way of its type, type 2 with the next key. Return: the completion's status */
enum ibv_wc_status bind_info(int qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info);
enum ibv_wc_status bind_window(int qp, struct ibv_mw *mw, enum region r, uint64_t offset,
			       uint64_t length, unsigned int access);
/* The same, expected to succeed. */
void need_bind(int qp, struct ibv_mw *mw, enum region r, uint64_t offset, uint64_t length,
	       unsigned int access);

enum ibv_wc_status invalidate(int qp, uint32_t rkey); /* LOCAL_INV */
/* Unbind in the way of its type, expected to succeed: a bind of length 0, or LOCAL_INV. */
void unbind(int qp, struct ibv_mw *mw);

/* --- what the other process finds ------------------------------------------------ */

/* One access of 8 bytes through queue pair @qp is permitted, or refused. */
void expect_access(int qp, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey, bool good);
/* The first bytes of the memory can be written and read; or nothing there nor at address 0 is
 * permitted. */
void expect_open(int qp, uint32_t rkey);
void expect_shut(int qp, uint32_t rkey);

#endif
