/* SPDX-License-Identifier: MIT */
/* Finding XRC shared receive queues. Their numbers are given out with those of queue pairs. */
#include "transport/xrc.h"

#include "hca/directory.h"

struct av_seg *av_xrc_receiver(const struct av_qp_end *rsp, uint32_t srqn, struct av_receiver *to)
{
	struct av_qp_home home = av_dir_qpn_find(srqn & AV_QPN_MASK);
	struct av_seg *seg = home.ref ? av_seg_get(home.ref) : NULL;
	const struct av_rq_shared *rq = seg ? av_rq_at(seg, home.index) : NULL;

	if (rq && rq->srqn == srqn && rq->srqn && rq->xrcd == rsp->qp->xrcd) {
		*to = (struct av_receiver){rsp, seg, home.index, rq->cq};
		return seg;
	}
	av_seg_put(seg);
	return NULL;
}
