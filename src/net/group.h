/* SPDX-License-Identifier: MIT */
/*
 * An address that several processes share: telling the kernel which packets are whose
 * (registry/reuseport.h, net/steer.h). If it has not been told yet, or refuses, packets go astray,
 * and are passed on.
 */
#ifndef AV_NET_GROUP_H
#define AV_NET_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "net/endpoint.h"

/* Give the endpoint's socket its address. Context: may wait for the directory. Return: 0 or -errno
 */
AV_MUST_USE int av_group_enter(struct av_endpoint *e);

/* Close its socket. Context: nobody receives by it */
void av_group_leave(struct av_endpoint *e);

/* The program has closed its socket. Context: by who receives */
void av_group_lost(struct av_endpoint *e);

/*
 * Have packets for that queue pair, of this process, come by these endpoints. Context: they stay
 * open. Return: 0, -ENOSPC: numbers of another process are in the way, -EBUSY
 */
int av_group_own(uint32_t qpn, struct av_endpoint *const *e, unsigned int count);

/*
 * Before and after receiving by an endpoint. Before: what has been told the kernel, and all that
 * comes now was sent so. After: nothing is left from before. Context: by who receives
 */
struct av_group_look {
	uint32_t told;
	bool sure; /* so was what has not been taken yet */
};
struct av_group_look av_group_look(const struct av_endpoint *e);
void av_group_drained(struct av_endpoint *e, const struct av_group_look *look);

/*
 * A packet for a queue pair of @owner, another process, came by an endpoint: find out why, if it is
 * time. @look: at what it came with; NULL: it came together with others
 * Context: by who receives; may wait for the directory
 */
void av_group_astray(struct av_endpoint *e, uint32_t owner, uint32_t qpn,
		     const struct av_group_look *look);

#endif
