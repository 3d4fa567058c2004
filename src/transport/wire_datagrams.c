/* SPDX-License-Identifier: MIT */
/* Own datagram queue pairs on the wire: the addresses that they receive at. */
#include <errno.h>
#include <string.h>

#include "device/gid.h"
#include "device/port.h"
#include "transport/wire.h"
#include "transport/wire_allowed.h"
#include "transport/wire_qp.h"

/* Have packets for one address come, unless it is open already. */
static void open_address(struct av_wire *w, const union ibv_gid *gid)
{
	int err;

	for (uint32_t i = 0; i < w->addresses; i++)
		if (memcmp(w->address[i], gid->raw, sizeof(gid->raw)) == 0)
			return;
	err = av_net_open(gid->raw);
	if (err) {
		w->unopened = err;
		if (err == -EBUSY) /* it would not even receive, and its program hears nothing */
			av_net_warn(gid->raw, err);
		return;
	}
	memcpy(w->address[w->addresses++], gid->raw, sizeof(gid->raw));
	(void)!av_net_own(gid->raw, w->qpn);
}

static void open_addresses(const struct av_qp_end *end, struct av_wire *w)
{
	uint32_t port = end->seg->head->port;

	for (uint32_t row = 0; row < AV_GID_MAX; row++) {
		union ibv_gid gid;

		if (av_port_has_row(port, row) &&
		    av_port_gid(port, row, &gid) == IBV_GID_TYPE_ROCE_V2)
			open_address(w, &gid);
	}
}

void av_wire_open_datagrams(const struct av_qp_end *end)
{
	struct av_wire *w;

	if (!av_wire_is_possible(end->seg) || av_wire_at(end->seg, end->qp->index))
		return;
	w = av_wire_new(end, AV_GID_MAX);
	if (!w)
		return;
	open_addresses(end, w);
	if (av_wire_keep(end, w))
		av_wire_delete(w);
	else
		av_wire_join_all(w);
}

bool av_wire_sends(const struct av_qp_end *end)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	return w && w->addresses;
}

void av_wire_unsent(const struct av_qp_end *end, const uint8_t src[16])
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (w && w->unopened)
		av_net_warn(src, w->unopened);
}
