/* SPDX-License-Identifier: MIT */
/* Which queue pairs of this host are attached to which multicast group; kept in the directory. */
#ifndef AV_REGISTRY_MULTICAST_H
#define AV_REGISTRY_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "registry/directory.h"

/* Does it name a group? ff00::/8, or the mapped form of an IPv4 group, ::ffff:224.0.0.0/100. */
bool av_multicast_gid(const union ibv_gid *gid);

struct av_multicast_member {
	struct av_qp_location location;
	uint32_t qpn;
};

/*
 * Attach a queue pair of this process. Attaching it again changes nothing. Return: 0, -ENOMEM or
 * -EBUSY
 */
AV_MUST_USE int av_multicast_attach(const union ibv_gid *gid,
				    const struct av_multicast_member *member);

bool av_multicast_has(const union ibv_gid *gid, uint32_t qpn);

/* Return: 0, or -EINVAL if it is not attached. */
AV_MUST_USE int av_multicast_detach(const union ibv_gid *gid, uint32_t qpn);

/*
 * Walk the members of a group. @at: in and out, 0 to begin. Lock-free: a member that comes or goes
 * meanwhile may be seen or not. Return: false at the end.
 */
bool av_multicast_next(const union ibv_gid *gid, uint32_t *at, struct av_multicast_member *member);

/* The same, of the groups that queue pair @qpn is a member of. */
bool av_multicast_next_of(uint32_t qpn, uint32_t *at, union ibv_gid *gid);

#endif
