/* SPDX-License-Identifier: MIT */
/* Requests from one side to the other as rows of tables say them. */
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
#define REQUEST_GIVEN	5	    /* what is added or compared with, */
#define REQUEST_SWAPPED 6	    /* and put in its place */

/* A request, by places in the two sides' arenas. */
struct request {
	enum ibv_wr_opcode op;
	unsigned int flags;
	uint32_t bytes; /* of each element */
	int elements;	/* 0: one; -1: none */
	enum key lkey, rkey;
	uint64_t local_at, remote_at;
};

/* It, with wr_id 1. */
struct node_send request_make(const struct side *from, const struct side *to,
			      const struct request *r);

bool request_is_atomic(enum ibv_wr_opcode op);
bool request_receives(enum ibv_wr_opcode op); /* it consumes a receive request */

/* What a connection's responder does not permit. */
struct request_limits {
	unsigned int denied;	/* access flags that its queue pair lacks */
	bool no_rd_atomic;	/* max_rd_atomic of the requester is 0, */
	bool no_dest_rd_atomic; /* max_dest_rd_atomic of the responder */
};

/* Create and connect queue pairs 0, the requester with an RNR retry count of 1. */
void request_connect(struct side *from, struct side *to, const struct request_limits *limits);

#endif
