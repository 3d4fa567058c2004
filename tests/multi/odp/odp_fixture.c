/* SPDX-License-Identifier: MIT */
#include "odp_fixture.h"

#include <errno.h>

#include "lib/expect.h"
#include "lib/newer_verbs.h"
#include "lib/probe.h"

#define PIECE  (1u << 30) /* of what is prefetched: an element has 32 bits of length */
#define PIECES 4

const uint32_t api_operations = ~0u;

void api_query(struct ibv_context *ctx, struct odp_answer *answer)
{
	struct ibv_device_attr_ex attr;

	NEED(ibv_query_device_ex(ctx, NULL, &attr) == 0);
	answer->general = attr.odp_caps.general_caps;
	answer->of[RC] = attr.odp_caps.per_transport_caps.rc_odp_caps;
	answer->of[UC] = attr.odp_caps.per_transport_caps.uc_odp_caps;
	answer->of[UD] = attr.odp_caps.per_transport_caps.ud_odp_caps;
	answer->of[XRC] = attr.xrc_odp_caps;
}

struct ibv_mr *api_register(struct ibv_pd *pd, void *addr, size_t length, bool on_demand)
{
	return ibv_reg_mr(pd, addr, addr ? length : SIZE_MAX,
			  PROBE_ALL | ACCESS_FLUSH_GLOBAL | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));
}

const int api_unmapped = EFAULT;

int api_prefetch(struct ibv_mr *mr, void *addr, size_t length, bool for_writing)
{
	struct ibv_sge sge[PIECES];
	int count = 0;

	for (size_t done = 0; done < length; done += sge[count++].length) {
		size_t left = length - done;

		if (count == PIECES)
			return E2BIG;
		sge[count] = (struct ibv_sge){(uintptr_t)addr + done,
					      left < PIECE ? (uint32_t)left : PIECE, mr->lkey};
	}
	return ibv_advise_mr(mr->pd,
			     for_writing ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
					 : IBV_ADVISE_MR_ADVICE_PREFETCH,
			     IBV_ADVISE_MR_FLAG_FLUSH, sge, (uint32_t)count);
}

struct ibv_qp *api_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *init)
{
	return ibv_create_qp_ex(ctx, init);
}

int api_modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr copy = *attr;

	return ibv_modify_qp(qp, &copy, mask);
}

int api_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

int api_poll(struct ibv_cq *cq, enum ibv_wc_status *status)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(cq, 1, &wc);

	if (got == 1)
		*status = wc.status;
	return got;
}
