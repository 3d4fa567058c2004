/* SPDX-License-Identifier: MIT */
/* Finding XRC shared receive queues. Their numbers are given out with those of queue pairs. */
#include "transport/xrc.h"

#include "registry/directory.h"

enum av_xrc_found av_xrc_begin(const struct av_qp_end *rsp, uint32_t srqn, struct av_xrc_use *use,
			       struct av_receiver *to)
{
	struct av_qp_location location = av_dir_qpn_find(srqn & AV_QPN_MASK);
	struct av_rq_shared *rq;

	*use = (struct av_xrc_use){.seg = location.ref ? av_seg_get(location.ref) : NULL};
	if (!use->seg || !av_seg_alive(use->seg))
		return AV_XRC_NONE;
	use->pin = av_pin_begin(use->seg, srqn);
	if (!use->pin)
		return AV_XRC_BUSY;
	rq = av_rq_at(use->seg, location.index); /* behind the pin: what is found now stays */
	if (!rq || srqn == 0 || atomic_load(&rq->srqn) != srqn || rq->xrcd != rsp->qp->xrcd)
		return AV_XRC_NONE;
	*to = (struct av_receiver){rsp, use->seg, location.index, rq->cq};
	return AV_XRC_FOUND;
}

void av_xrc_end(struct av_xrc_use *use)
{
	if (use->pin)
		av_pin_end(use->pin);
	av_seg_put(use->seg);
	*use = (struct av_xrc_use){0};
}

void av_xrc_retire(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t srqn = atomic_exchange(&rq->srqn, 0);

	if (srqn == 0)
		return;
	av_dir_qpn_remove(srqn);
	av_pin_drain(seg, srqn);
}
