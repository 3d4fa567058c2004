/* SPDX-License-Identifier: MIT */
/*
 * The verbs that test_odp_*.c try on-demand paging with: plain ones (odp_fixture.c), or
 * experimental ones (exp/odp_exp.c) in other programs of the same rows.
 */
#ifndef TEST_ODP_FIXTURE_H
#define TEST_ODP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

enum transport { RC, UC, UD, XRC, TRANSPORTS };

/* What the device says, by the names of enum ibv_odp_transport_cap_bits: they are the same
 * everywhere. */
struct odp_answer {
	uint64_t general;
	uint32_t of[TRANSPORTS];
};

extern const uint32_t api_operations; /* those of these bits that the verbs have a request for */

void api_query(struct ibv_context *ctx, struct odp_answer *answer);
/* With all rights of these operations; @addr NULL: the whole address space. Return: NULL and errno
 */
struct ibv_mr *api_register(struct ibv_pd *pd, void *addr, size_t length, bool on_demand);
/* Wait for the pages. Return: 0 or the errno value */
int api_prefetch(struct ibv_mr *mr, void *addr, size_t length, bool for_writing);
extern const int api_unmapped; /* what that says of memory that is not mapped */
struct ibv_qp *api_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *init);
int api_modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask);
int api_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
/* Return: as ibv_poll_cq() for one completion */
int api_poll(struct ibv_cq *cq, enum ibv_wc_status *status);

#endif
