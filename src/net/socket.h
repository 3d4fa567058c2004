/* SPDX-License-Identifier: MIT */
/* Sockets at UDP port 4791: of an address, and of a multicast group. */
#ifndef AV_NET_SOCKET_H
#define AV_NET_SOCKET_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/own_fd.h"

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

#endif
