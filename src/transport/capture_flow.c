/* SPDX-License-Identifier: MIT */
#include "transport/capture_flow.h"

#include <string.h>

#include "device/gid.h"
#include "device/port.h"

/* What the kernel puts into a RoCEv2 packet, whatever the program has set. */
#define HOP_LIMIT 64

static uint32_t qpn_of(const struct av_qp_end *end)
{
	return atomic_load_explicit(&end->qp->qpn, memory_order_relaxed);
}

/* The address of a port on link layer InfiniBand, which is known by its LID only. */
static void gid_of_lid(uint32_t lid, union ibv_gid *gid)
{
	struct av_gid row;

	av_gid_from_guid(lid, &row);
	*gid = row.gid;
}

static void complete(struct av_frame *f, const union ibv_gid *src, const union ibv_gid *dst)
{
	memcpy(f->src, src->raw, sizeof(f->src));
	memcpy(f->dst, dst->raw, sizeof(f->dst));
	av_frame_mac(f->src, f->eth_src);
	av_frame_mac(f->dst, f->eth_dst);
	f->hop_limit = HOP_LIMIT;
}

/* Both ends' addresses, from the requester's view. */
static void addresses(const struct av_qp_end *req, const struct av_qp_end *rsp, union ibv_gid *src,
		      union ibv_gid *dst)
{
	const struct ibv_ah_attr *ah = &req->qp->attr.ah_attr;

	av_port_gid(req->seg->head->port, ah->is_global ? ah->grh.sgid_index : 0, src);
	if (ah->is_global)
		*dst = ah->grh.dgid;
	else if (rsp->qp)
		av_port_gid(rsp->seg->head->port, 0, dst);
	else
		gid_of_lid(ah->dlid, dst);
}

/* The headers that @end puts into its frames. */
static struct av_frame begin(const struct av_qp_end *end)
{
	const struct ibv_ah_attr *ah = &end->qp->attr.ah_attr;
	uint32_t label = ah->is_global ? ah->grh.flow_label : 0;

	return (struct av_frame){
		.traffic_class = ah->is_global ? ah->grh.traffic_class : 0,
		.flow_label = label,
		.source_port = av_frame_source_port(label, qpn_of(end), end->qp->attr.dest_qp_num),
	};
}

void av_capture_flow(struct av_frame *f, const struct av_qp_end *req, const struct av_qp_end *rsp)
{
	union ibv_gid src, dst;

	addresses(req, rsp, &src, &dst);
	*f = begin(req);
	complete(f, &src, &dst);
}

void av_capture_flow_back(struct av_frame *f, const struct av_qp_end *req,
			  const struct av_qp_end *rsp)
{
	union ibv_gid src, dst;

	addresses(req, rsp, &src, &dst);
	*f = begin(rsp);
	complete(f, &dst, &src);
}

/* The address of the port that a queue pair is at. */
static void gid_of_qpn(uint32_t qpn, uint32_t lid, union ibv_gid *gid)
{
	struct av_seg *seg = av_qp_get(qpn).seg;

	if (seg && seg->head->lid == lid)
		av_port_gid(seg->head->port, 0, gid);
	else
		gid_of_lid(lid, gid);
	av_seg_put(seg);
}

void av_capture_flow_datagram(struct av_frame *f, const struct av_qp_end *req,
			      const struct av_sq_wqe *wqe)
{
	uint32_t label = wqe->route.is_global ? wqe->route.flow_label : 0;
	union ibv_gid src, dst = wqe->ud.dgid;

	av_port_gid(req->seg->head->port, wqe->route.is_global ? wqe->route.sgid_index : 0, &src);
	if (!wqe->route.is_global)
		gid_of_qpn(wqe->ud.qpn & AV_QPN_MASK, wqe->route.dlid, &dst);
	*f = (struct av_frame){
		.traffic_class = wqe->route.is_global ? wqe->route.traffic_class : 0,
		.flow_label = label,
		.source_port = av_frame_source_port(label, qpn_of(req), wqe->ud.qpn & AV_QPN_MASK),
	};
	complete(f, &src, &dst);
}
