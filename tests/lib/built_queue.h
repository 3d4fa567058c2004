/* SPDX-License-Identifier: MIT */
/* A queue pair of a node's that takes RDMA WRITEs by ibv_wr_start(3), too. */
#ifndef TEST_BUILT_QUEUE_H
#define TEST_BUILT_QUEUE_H

#include <stdint.h>
#include <infiniband/verbs.h>

#include "lib/node.h"

/*
 * RC, in state RESET, with @depth requests on either side. @cq: out, its only CQ. Ends the test if
 * there is none.
 */
struct ibv_qp *built_queue(const struct node *n, uint32_t depth, struct ibv_cq **cq);

#endif
