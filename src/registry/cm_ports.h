/* SPDX-License-Identifier: MIT */
/*
 * Port numbers of the connection manager: which process has bound which, and who listens. Kept in
 * the directory, so that its processes share one space of numbers, as those of a host do in the
 * kernel. Rows of dead processes count as free.
 */
#ifndef AV_REGISTRY_CM_PORTS_H
#define AV_REGISTRY_CM_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct av_cm_port {
	uint32_t proc;	     /* reference of its process: out */
	int32_t pid;	     /* of it, in its own namespace: out, of av_cm_port_next() */
	uint32_t id;	     /* what that process calls it */
	uint64_t netns;	     /* of the network namespace: as av_reuseport_join() */
	uint16_t ps;	     /* RDMA_PS_TCP, _UDP, _IPOIB, _IB: each has port numbers of its own */
	uint16_t port;	     /* host byte order */
	uint8_t address[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
	bool v6;	     /* family */
	bool afonly;	     /* else an address that stands for any does so of both families */
	bool reuse;	     /* RDMA_OPTION_ID_REUSEADDR; ends when it listens */
	bool listens;
};

/*
 * Does the address stand for any of its family? 0.0.0.0/8 and 127.0.0.0/8, :: and ::1 do.
 * Source: Linux, drivers/infiniband/core/cma.c, cma_any_addr().
 */
bool av_cm_is_any(const uint8_t address[16]);

/*
 * Bind a port of this process. @p->port: out, if it is 0: one of 32768 to 60999 that nobody has.
 * Rules: those of Linux, drivers/infiniband/core/cma.c, cma_check_port(). Two collide unless both
 * have @reuse, or their families differ and both are of one family only.
 * Context: the directory is joined; waits briefly for others
 * Return: a handle >= 0, or -errno. -EADDRINUSE: somebody has that address and port;
 * -EADDRNOTAVAIL: the same, where one of both stands for any; -EACCES: a port below 1024, and no
 * CAP_NET_BIND_SERVICE; -ENOSPC; -EBUSY
 */
AV_MUST_USE int av_cm_port_bind(struct av_cm_port *p);

/*
 * Its options from now on: for whoever binds, listens or asks next. It stays bound, and goes on
 * listening. Context: one thread at a time has a handle; needs no change of the directory
 */
void av_cm_port_options(int handle, bool afonly, bool reuse);

/*
 * From now on av_cm_port_find() knows it. Who listens is alone, even if all have @reuse.
 * Return: 0, -EADDRINUSE or -EADDRNOTAVAIL as above, or -EBUSY
 */
AV_MUST_USE int av_cm_port_listen(int handle);

/* It is free at once. In a forked child, nothing: it is the parent's. */
void av_cm_port_release(int handle);

/*
 * Who listens for requests to that address. It is bound to the address, or to one that stands for
 * any; there are never both. So a request to a loopback address is for the latter alone. Context:
 * the directory is joined; lock-free. Return: false: nobody
 */
bool av_cm_port_find(uint64_t netns, uint16_t ps, uint16_t port, const uint8_t address[16], bool v6,
		     struct av_cm_port *found);

/*
 * Walk the ports of living processes. @at: in and out, 0 to begin. Needs no joining.
 * Return: false at the end
 */
bool av_cm_port_next(uint32_t *at, struct av_cm_port *p);

/* The process is dead: clear its rows. Context: within a change of the directory */
void av_cm_ports_end(uint32_t proc);

#endif
