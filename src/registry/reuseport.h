/* SPDX-License-Identifier: MIT */
/* Processes that share an address: which numbers are whose, and where packets are passed on. */
#ifndef AV_REGISTRY_REUSEPORT_H
#define AV_REGISTRY_REUSEPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "registry/directory.h"

/* The name of a process's own socket in the directory's folder: pSLOT-GENERATION. */

/* Context: joined. Return: false: neither the path nor a way around it fits into an address */
AV_MUST_USE bool av_process_socket(struct sockaddr_un *a, uint32_t proc);

/* Context: joined; makes system calls */
void av_process_socket_remove(uint32_t proc);

/*
 * Which processes share UDP port 4791 of an address, and which queue pairs are whose: what the
 * kernel needs to know to give each packet to the right process (SO_REUSEPORT, net/socket.h).
 *
 * The kernel keeps the sockets of an address in an array. A new one comes last; when one closes,
 * the last one takes its place. Nobody can read the array, so the directory has a copy, which
 * follows the same rule. It may be behind, or wrong: of two processes that died, nobody knows which
 * went first. So no packet's fate depends on it; and whoever gets a packet by mistake knows from it
 * where in the array it is.
 *
 * Queue pair numbers belong to processes by blocks (AV_QPN_BLOCK()): a process's
 * numbers lie close together (numbers.c), so that there is little to tell the kernel.
 *
 * Context: within a change of the directory, unless it says otherwise.
 */

#define AV_REUSEPORT_NOBODY UINT32_MAX /* a place that no socket has */

/*
 * This process is about to give a socket this address, and comes last. Members that have died
 * leave. @netns: a number of the network namespace. Return: the group, or -ENOSPC
 */
AV_MUST_USE int av_reuseport_join(uint64_t netns, const uint8_t address[16]);

/* This process is about to close its socket. */
void av_reuseport_leave(int group);

/* The same without a change, when the socket is gone: whoever makes the next one sees to it. */
void av_reuseport_gone(int group);

/* Members that have died leave. */
void av_reuseport_sweep(int group);

/* Learnt from a packet: this process has the place @index. Who was thought to have it swaps. */
void av_reuseport_learn(int group, uint32_t index);

unsigned int av_reuseport_members(int group);

/* The place of a process; AV_REUSEPORT_NOBODY: it is no member */
uint32_t av_reuseport_place(int group, uint32_t proc);

/*
 * Whose place each block of numbers leads to: @place has AV_QPN_BLOCKS entries, of which
 * those of nobody's are AV_REUSEPORT_NOBODY.
 */
void av_reuseport_places(int group, uint32_t *place);

/*
 * What the kernel has been told last: a number that differs after each change of the members or of
 * the owners of blocks. 0: there has been one since. Context: any; lock-free
 */
uint32_t av_reuseport_told(int group);

/* The kernel has been told. */
void av_reuseport_tell(int group);

/* --- blocks ----------------------------------------------------------------------- */

/* The owner of that number's block; 0: none. Lock-free. */
uint32_t av_reuseport_owner(uint32_t qpn);

/*
 * Have the block of a number, which is @proc's, belong to it. Return: false: it is another living
 * process's that has numbers in it, too
 */
AV_MUST_USE bool av_reuseport_own(uint32_t proc, uint32_t qpn);

#endif
