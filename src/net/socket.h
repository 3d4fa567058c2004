/* SPDX-License-Identifier: MIT */
/* Sockets at UDP port 4791: of an address, and of a multicast group. */
#ifndef AV_NET_SOCKET_H
#define AV_NET_SOCKET_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "net/gro_split.h"
#include "net/endpoint.h"

/*
 * The interface that has an address, in this thread's network namespace. Context: makes system
 * calls, allocates. Return: 0 or -errno: -EADDRNOTAVAIL: none has it; -EMFILE, -ENFILE, -ENOMEM
 */
AV_MUST_USE int av_net_interface(const uint8_t address[16], uint32_t *ifindex);

/*
 * Make a socket for an address of interface @ifindex, without a name: nothing comes yet.
 * @group: the address is one of a group, which may be shared with other users
 * Return: 0 or -errno; @own: out, AV_OWN_FD_NONE if it failed
 */
AV_MUST_USE int av_net_socket(struct av_own_fd *own, const uint8_t address[16], uint32_t ifindex,
			      bool group);

/*
 * Give it its name: packets come from now on. A group is joined at the interface, too. Return: 0 or
 * -errno: -EADDRINUSE: another user, or the kernel's rdma_rxe, has the port
 */
AV_MUST_USE int av_net_socket_bind(const struct av_own_fd *own, const uint8_t address[16],
				   uint32_t ifindex, bool group);

/*
 * Passing packets on to the process that owns their queue pair. Each process has a socket in the
 * directory's folder, which is the user's alone. What does not fit into it is lost, as on any
 * network, unless it is kept (net/inbound.h).
 */

/* The socket of this process, without a name; the name; and the name no longer. 0 or -errno */
AV_MUST_USE int av_misrouted_socket(struct av_own_fd *own);
AV_MUST_USE int av_misrouted_begin(const struct av_own_fd *own);
void av_misrouted_end(void);

/*
 * Pass datagrams on, all of @cut, to @owner. @own: the socket of this process. Return: 0; -EAGAIN:
 * its socket is full; -ECONNREFUSED, -ENOENT: it has none
 */
int av_misrouted_pass(const struct av_own_fd *own, uint32_t owner, const struct av_gro_split *cut);

/* Read what was passed on. @cut: out; its datagrams stay in @from. Return: false: it is garbage */
AV_MUST_USE bool av_misrouted_get(struct av_gro_split *cut, const uint8_t *from, size_t bytes);

/* Which of the sockets that share an address gets a packet. */

/*
 * The program by which the kernel chooses, among the sockets that share an address, that of the
 * process which owns a packet's queue pair: classic BPF, for SO_ATTACH_REUSEPORT_CBPF. Pure
 * functions. Where the numbers come from: registry/reuseport.h.
 */

#define AV_STEER_MAX 4096 /* instructions that the kernel takes: BPF_MAXINSNS */

/* Where the packets for blocks @first .. of the next run - 1 go. */
struct av_steer_run {
	uint32_t first;
	uint32_t place; /* in the kernel's array */
};

/* Runs of a program of that size: two instructions each, and some for long jumps. */
#define AV_STEER_RUNS 2000

/*
 * The runs of a table. Blocks of nobody's (AV_REUSEPORT_NOBODY) need none: they join the run before
 * them. @run: room for AV_STEER_RUNS. Blocks that it does not suffice for are in a last run, of
 * nobody's. Return: how many, 1 at least
 */
unsigned int av_steer_runs(const uint32_t *place, unsigned int blocks, struct av_steer_run *run);

/*
 * @runs: AV_STEER_RUNS at most; the first begins with block 0. What leads to nobody returns a place
 * that is out of range: then the kernel takes any socket. A packet that ends within its queue
 * pair's number goes to place 0. Return: instructions in @program, which has room for AV_STEER_MAX
 */
unsigned int av_steer_program(const struct av_steer_run *run, unsigned int runs,
			      struct sock_filter *program);

/*
 * An address that several processes share: telling the kernel which packets are whose
 * (registry/reuseport.h). Until it knows, or if it refuses, it misroutes packets, and
 * whoever receives them passes them on.
 */

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
void av_group_misrouted(struct av_endpoint *e, uint32_t owner, uint32_t qpn,
			const struct av_group_look *look);

#endif
