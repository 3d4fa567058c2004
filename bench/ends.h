/* SPDX-License-Identifier: MIT */
/*
 * The ends of the measured traffic: contexts with any number of RC queue pairs. If something fails
 * that must not, the program ends.
 */
#pragma once

#include <stdint.h>
#include <infiniband/verbs.h>

#define END_RIGHTS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
	struct ibv_qp **qp; /* those that exist */
	int qps, room;
};

/* Open the device. */
void end_open(struct end *e);
/* Destroy everything. */
void end_close(struct end *e);

/*
 * Add a queue pair at the end of the list, with @depth requests each way and one element each;
 * remove the last one.
 */
struct ibv_qp *end_add_qp(struct end *e, uint32_t depth);
void end_drop_qp(struct end *e);

/* From RESET to RTS. */
void end_connect(struct ibv_qp *qp, uint32_t qpn, const union ibv_gid *gid);

/* Add queue pairs until there are @count (even), each connected with its neighbour. */
void end_add_pairs(struct end *e, int count, uint32_t depth);

struct ibv_mr *end_reg(struct end *e, void *at, size_t bytes, int access);
void end_dereg(struct ibv_mr *mr);

/* Post one request and wait for its completion. */
struct transfer {
	enum ibv_wr_opcode opcode;
	uint64_t local, remote;
	uint32_t lkey, rkey, bytes;
};
void end_transfer(struct end *e, struct ibv_qp *qp, const struct transfer *t);
/* Repeat that at least @count times. Return: nanoseconds per request, robust against other load. */
double end_transfer_ns(struct end *e, struct ibv_qp *qp, const struct transfer *t, int count);

/* Wait for the completion of the only request under way. */
void end_wait(struct end *e);
