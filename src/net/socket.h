/* SPDX-License-Identifier: MIT */
/* Sockets at UDP port 4791: of an address, and of a multicast group. */
#ifndef AV_NET_SOCKET_H
#define AV_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/own_fd.h"
#include "net/cut.h"

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
 * Has nobody port AV_ROCE_PORT of that address, not even other processes of this user? Tries a
 * socket that does not share it. Return: 0 or -errno: -EADDRINUSE: somebody has
 */
AV_MUST_USE int av_net_socket_alone(const uint8_t address[16], uint32_t ifindex);

/* A number of the socket's network namespace; 0: the kernel is too old to tell */
uint64_t av_net_socket_namespace(const struct av_own_fd *own);

/*
 * Passing packets on to the process that owns their queue pair. Each process has a socket in the
 * directory's folder, which is the user's alone. What does not fit into it is lost, as on any
 * network, unless it is kept (net/inbound.h).
 */

/* The socket of this process, without a name; the name; and the name no longer. 0 or -errno */
AV_MUST_USE int av_astray_socket(struct av_own_fd *own);
AV_MUST_USE int av_astray_begin(const struct av_own_fd *own);
void av_astray_end(void);

/*
 * Pass datagrams on, all of @cut, to @owner. @own: the socket of this process. Return: 0; -EAGAIN:
 * its socket is full; -ECONNREFUSED, -ENOENT: it has none
 */
int av_astray_pass(const struct av_own_fd *own, uint32_t owner, const struct av_cut *cut);

/* Read what was passed on. @cut: out; its datagrams stay in @from. Return: false: it is garbage */
AV_MUST_USE bool av_astray_get(struct av_cut *cut, const uint8_t *from, size_t bytes);

#endif
