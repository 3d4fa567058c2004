/* SPDX-License-Identifier: MIT */
/* Requests from one side to the other, as tables describe them. */
#ifndef TEST_REQUEST_H
#define TEST_REQUEST_H

#include "lib/side.h"

/* Short names, for the tables. */
#define SEND  IBV_WR_SEND
#define SENDI IBV_WR_SEND_WITH_IMM
#define WRITE IBV_WR_RDMA_WRITE
#define WRITI IBV_WR_RDMA_WRITE_WITH_IMM
#define READ  IBV_WR_RDMA_READ
#define CAS   IBV_WR_ATOMIC_CMP_AND_SWP
#define FAA   IBV_WR_ATOMIC_FETCH_AND_ADD

#define REQUEST_IMM	0x11223344u /* host order */
#define REQUEST_GIVEN	5	    /* the operand to add or compare with */
#define REQUEST_SWAPPED 6	    /* the operand to swap in */

/* A request, by offsets in the two sides' arenas. */
struct request {
	enum ibv_wr_opcode op;
	unsigned int flags;
	uint32_t bytes; /* per element */
	int elements;	/* 0: one; -1: none */
	enum key lkey, rkey;
	uint64_t local_at, remote_at;
};

/* Build the request, with wr_id 1. */
struct node_send request_make(const struct side *from, const struct side *to,
			      const struct request *r);

bool request_is_atomic(enum ibv_wr_opcode op);
bool request_receives(enum ibv_wr_opcode op); /* Does the opcode consume a receive request? */

/* A connection, and what it does not permit. */
struct request_limits {
	enum ibv_qp_type type;	/* 0: RC */
	unsigned int denied;	/* access flags that the responder's queue pair lacks */
	bool no_rd_atomic;	/* the requester's max_rd_atomic is 0 */
	bool no_dest_rd_atomic; /* the responder's max_dest_rd_atomic is 0 */
};

/* Create and connect queue pairs 0; the requester has an RNR retry count of 1. */
void request_connect(struct side *from, struct side *to, const struct request_limits *limits);

#endif
