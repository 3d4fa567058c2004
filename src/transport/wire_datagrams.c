/* SPDX-License-Identifier: MIT */
/* Own datagram queue pairs on the wire: the addresses that they receive at. */
#include <errno.h>
#include <string.h>

#include "device/gid.h"
#include "device/port.h"
#include "observe/log.h"
#include "transport/wire.h"
#include "transport/wire_allowed.h"
#include "transport/wire_qp.h"

/* @w: NULL: the queue pair has no packets */
static bool is_open(const struct av_wire *w, const uint8_t address[16])
{
	for (uint32_t i = 0; w && i < w->addresses; i++)
		if (memcmp(w->address[i], address, sizeof(w->address[i])) == 0)
			return true;
	return false;
}

/* Have packets for one address come, unless it is open already. */
static void open_address(struct av_wire *w, const union ibv_gid *gid)
{
	int err;

	if (is_open(w, gid->raw))
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
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (!av_wire_is_possible(end->seg) || (w && w->qpn == atomic_load(&end->qp->qpn)))
		return;
	if (av_wire_close(end)) /* what another queue pair, which had this place before, has left */
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

static void tell_unsent(const struct av_wire *w, const uint8_t src[16])
{
	if (w && w->unopened)
		av_net_warn(src, w->unopened);
	else if (w)
		av_warn_once("an address has come since a datagram queue pair entered RTR: to and "
			     "from other hosts, its datagrams there are lost until it is reset");
}

struct av_net_burst *av_wire_burst(const struct av_qp_end *end, const struct av_net_path *path)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	AV_ASSERT_HELD(&end->qp->exec);
	if (is_open(w, path->src))
		return av_net_burst(path, end->seg->head->device);
	tell_unsent(w, path->src);
	return NULL;
}

bool av_wire_has_room(const struct av_qp_end *end, const struct av_net_path *path)
{
	AV_ASSERT_HELD(&end->qp->exec);
	return !is_open(av_wire_at(end->seg, end->qp->index), path->src) || av_net_has_room(path);
}
