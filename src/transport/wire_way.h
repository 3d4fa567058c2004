/* SPDX-License-Identifier: MIT */
/* The way of a connection on the wire to its peer, from the attributes of its address. */
#ifndef AV_TRANSPORT_WIRE_WAY_H
#define AV_TRANSPORT_WIRE_WAY_H

#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "net/net.h"
#include "queue/qp.h"

struct av_wire_way {
	struct av_net_path path;  /* its source address is open */
	struct av_window *window; /* to the peer's host; NULL: there is no way */
};

/*
 * Make the way that @ah says, for a queue pair that is not of datagrams.
 * Context: no execution right held. Return: 0, or an errno of ibv_modify_qp(): ENOMEM, EADDRINUSE,
 * EADDRNOTAVAIL; then there is no way
 */
AV_MUST_USE int av_wire_way_open(const struct av_qp_end *end, const struct ibv_ah_attr *ah,
				 struct av_wire_way *way);

/* End it, if there is one. Context: no execution right held */
void av_wire_way_close(struct av_wire_way *way);

#endif
