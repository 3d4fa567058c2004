/* SPDX-License-Identifier: MIT */
#include "transport/wire_way.h"

#include <errno.h>
#include <string.h>

#include "device/port.h"
#include "transport/to_packets.h"
#include "transport/wire_window.h"

#define ECN_CAPABLE 2 /* ECT(0), of the low two bits of a traffic class */

static void fill_path(const struct av_qp_end *end, const struct ibv_ah_attr *ah,
		      struct av_net_path *path)
{
	union ibv_gid gid;

	(void)av_port_gid(end->seg->head->port, ah->grh.sgid_index, &gid);
	memcpy(path->src, gid.raw, sizeof(path->src));
	memcpy(path->dst, ah->grh.dgid.raw, sizeof(path->dst));
	path->traffic_class = ah->grh.traffic_class;
	if (av_service_is_reliable(end->qp->type)) /* it can send less: switches may mark */
		path->traffic_class |= ECN_CAPABLE;
	path->hop_limit = ah->grh.hop_limit;
	path->flow_label = ah->grh.flow_label;
}

int av_wire_way_open(const struct av_qp_end *end, const struct ibv_ah_attr *ah,
		     struct av_wire_way *way)
{
	int err;

	fill_path(end, ah, &way->path);
	way->window = av_window_join(way->path.dst);
	if (!way->window)
		return ENOMEM;
	err = -av_net_open(way->path.src);
	if (err == 0)
		return 0;
	av_net_warn(way->path.src, -err);
	av_window_leave(way->window);
	way->window = NULL;
	return err;
}

void av_wire_way_close(struct av_wire_way *way)
{
	if (!way->window)
		return;
	av_net_close(way->path.src);
	av_window_leave(way->window);
	way->window = NULL;
}
