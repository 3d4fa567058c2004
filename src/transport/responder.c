/* SPDX-License-Identifier: MIT */
/* Finding the responder of a connected queue pair. */
#include "transport/responder.h"

#include "base/uncancelled.h"
#include "device/port.h"

bool av_at_address(const struct ibv_ah_attr *ah, const struct av_seg *seg)
{
	if (ah->is_global)
		return av_port_has_gid(seg->head->port, &ah->grh.dgid);
	return seg->head->link_layer == IBV_LINK_LAYER_INFINIBAND && seg->head->lid == ah->dlid;
}

void av_disconnect(struct av_qp_end *peer)
{
	av_seg_put(peer->seg);
	*peer = (struct av_qp_end){0};
}

void av_connect_anew(const struct av_qp_end *end, struct av_qp_end *peer)
{
	AV_UNCANCELLED;
	uint32_t qpn = end->qp->attr.dest_qp_num;

	av_disconnect(peer);
	*peer = av_qp_get(qpn);
	if (!peer->qp || atomic_load(&peer->qp->qpn) != qpn ||
	    !av_at_address(&end->qp->attr.ah_attr, peer->seg))
		av_disconnect(peer);
}
