/* SPDX-License-Identifier: MIT */
#include "transport/wire_credits.h"

#include "queue/rq_shared.h"
#include "wire/credits.h"

uint8_t av_wire_credits(const struct av_qp_end *end)
{
	const struct av_rq_shared *rq = av_rq_at(end->seg, end->qp->rq);

	AV_ASSERT_HELD(&end->qp->resp);
	if (!rq || end->qp->srq || end->qp->type != IBV_QPT_RC)
		return AV_CREDITS_NONE_CODE;
	/* A message that is not complete is not acknowledged: its request counts. */
	return av_credits_code(av_rq_ready(rq) + (end->qp->receiving != 0));
}

int32_t av_wire_credit(const struct av_wire *w, bool takes, uint32_t first)
{
	if (!takes || w->service == AV_SERVICE_UC || (int32_t)(w->limit - w->takers) > 0)
		return INT32_MAX;
	if (w->takers != w->taken)
		return 0;
	/* Its first packet has found a receive request, or will not be the one that needs it. */
	if (av_psn_distance(first, w->acked) > 0)
		return INT32_MAX;
	return w->begun ? 0 : 1;
}

void av_wire_credited(struct av_wire *w, uint8_t code)
{
	w->limit = w->taken + av_credits_of(code);
}
