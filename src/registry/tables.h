/* SPDX-License-Identifier: MIT */
/*
 * Tables of the directory, which all processes of a user share: ports of the connection manager,
 * multicast groups, processes that share a UDP port, and users of shared pages.
 *
 * Unless a function says otherwise, the process has joined the directory. What waits for the change
 * lock waits AV_PEER_TIMEOUT_NS at most, else fails with EBUSY. A walk begins with *@at = 0.
 */
#pragma once

#include <sys/un.h>

#include "registry/directory.h"

/* === cm ports ==================================================================== */

/*
 * Port numbers of the connection manager: who has bound which, and which ones listen. Common to all
 * processes of the directory, as a host's are in the kernel. Rows of dead processes count as free.
 */

struct av_cm_port {
	uint32_t proc;	/* out: reference of its process */
	int32_t pid;	/* out, of av_cm_port_next(): that process's PID in its own namespace */
	uint32_t id;	/* that process's own name for it */
	uint64_t netns; /* number of the network namespace: as av_reuseport_join() */
	uint16_t ps;	/* RDMA_PS_TCP, _UDP, _IPOIB, _IB: each has port numbers of its own */
	uint16_t port;	/* host byte order */
	uint8_t address[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
	bool v6;	     /* the address is IPv6 */
	bool afonly;	     /* a wildcard address stands for its own family only, not for both */
	bool reuse;	     /* RDMA_OPTION_ID_REUSEADDR; cleared when the port listens */
	bool listens;
};

/*
 * Is the address a wildcard of its family? 0.0.0.0/8 and 127.0.0.0/8, :: and ::1 are.
 * Source: Linux, drivers/infiniband/core/cma.c, cma_any_addr().
 */
bool av_cm_is_any(const uint8_t address[16]);

/*
 * Bind a port of this process. If @p->port is 0, chooses one of 32768 to 60999 that nobody has, and
 * stores it there. Two ports collide unless both have @reuse, or both @afonly and unlike families.
 * Context: waits for the change lock.
 * Return: a handle >= 0; or -errno: -EADDRINUSE: somebody has bound that address and port;
 * -EADDRNOTAVAIL: the same, and one of both addresses is a wildcard; -EACCES: a port below 1024,
 * without CAP_NET_BIND_SERVICE; -ENOSPC; -EBUSY
 * Source: Linux, drivers/infiniband/core/cma.c, cma_check_port().
 */
AV_MUST_USE int av_cm_port_bind(struct av_cm_port *p);

/*
 * Set the options of a bound port, for whoever binds, listens or looks up a port next. The port
 * stays bound, and continues to listen. Context: one thread at a time for a handle; takes no lock.
 */
void av_cm_port_options(int handle, bool afonly, bool reuse);

/*
 * Listen: from now on av_cm_port_find() finds the port. @reuse prevents no collision here: a
 * listening port is alone. Context and return: as av_cm_port_bind(), or 0
 */
AV_MUST_USE int av_cm_port_listen(int handle);

/* Release the port: free at once. In a forked child it is the parent's, and stays. Lock-free. */
void av_cm_port_release(int handle);

/*
 * Find the port that listens for requests to an address. At most one does: a port bound to this
 * address, or to a wildcard. So only the latter gets requests to a loopback address. Lock-free.
 * Asks the kernel whether the port's process lives. Return: false: no port listens
 */
bool av_cm_port_find(uint64_t netns, uint16_t ps, uint16_t port, const uint8_t address[16], bool v6,
		     struct av_cm_port *found);

/* Walk the ports of living processes, joined or not. Return: false at the end */
bool av_cm_port_next(uint32_t *at, struct av_cm_port *p);

/* Clear the rows of a dead process. Context: within a change of the directory */
void av_cm_ports_end(uint32_t proc);

/* === multicast =================================================================== */

struct av_multicast_member {
	union ibv_gid gid; /* of the group */
	struct av_qp_location location;
	uint32_t qpn;
};

/*
 * Attach a queue pair of this process to a multicast group. Attaching it again changes nothing.
 * Context: waits for the change lock. Return: 0; -ENOMEM: the table is full; -EBUSY
 */
AV_MUST_USE int av_multicast_attach(const struct av_multicast_member *member);

/* Detach a queue pair. Waits only for this process's threads. Return: 0; -EINVAL: not attached */
AV_MUST_USE int av_multicast_detach(const union ibv_gid *gid, uint32_t qpn);

/*
 * Walk the members of group @gid, or of all groups if it is NULL; only queue pair @qpn, unless that
 * is 0. Lock-free: may omit a member that attaches or detaches meanwhile. Return: false at the end
 */
bool av_multicast_next(const union ibv_gid *gid, uint32_t qpn, uint32_t *at,
		       struct av_multicast_member *member);

/* === reuseport =================================================================== */

/*
 * The address of a process's own socket in the directory's folder, pSLOT-GENERATION. If the path is
 * too long for a socket's address, uses one below /proc/self/fd. Return: false: neither fits
 */
AV_MUST_USE bool av_process_socket(struct sockaddr_un *a, uint32_t proc);

/* Remove the name of that socket. Makes a system call. */
void av_process_socket_remove(uint32_t proc);

/*
 * Processes that share UDP port 4791 of an address (a group), and the owners of queue pair numbers,
 * by blocks (AV_QPN_BLOCK()). With both, the kernel delivers each packet to the right process
 * (SO_REUSEPORT, net/socket.h).
 *
 * The kernel keeps the sockets of an address in an array. It appends a new socket; when a socket
 * closes, the last one takes its place. No process can read the array, so the directory has a copy,
 * which follows the same rule. The copy may be late, or wrong: of two processes that died, nobody
 * knows which died first. So delivery is correct without it. A process that gets another one's
 * packet learns its own place in the array from that.
 *
 * Context: within a change of the directory, unless a function says otherwise.
 */

#define AV_REUSEPORT_NOBODY UINT32_MAX /* no socket has this place */

/*
 * Append this process to the group of an address, before it binds a socket to the address. Removes
 * dead members. @netns: a number of the network namespace. Return: the group, or -ENOSPC
 */
AV_MUST_USE int av_reuseport_join(uint64_t netns, const uint8_t address[16]);

/* Remove this process from the group, before it closes its socket. */
void av_reuseport_leave(int group);

/*
 * Remove this process from the group, after its socket has closed; the next av_reuseport_join() or
 * av_reuseport_sweep() closes the gap. Context: no change needed; lock-free.
 */
void av_reuseport_gone(int group);

/* Remove members that have died. */
void av_reuseport_sweep(int group);

/* A packet says that this process's place is @index: swap with the member in the copy there. */
void av_reuseport_learn(int group, uint32_t index);

unsigned int av_reuseport_members(int group);

/* The place of a process. AV_REUSEPORT_NOBODY: it is no member. */
uint32_t av_reuseport_place(int group, uint32_t proc);

/* Write each block's owner's place to @place[AV_QPN_BLOCKS]; AV_REUSEPORT_NOBODY: it has none. */
void av_reuseport_places(int group, uint32_t *place);

/*
 * The group's stamp, which each change of its members or of a block's owner changes, at the last
 * av_reuseport_tell(). 0: it has changed since. Context: any; lock-free.
 */
uint32_t av_reuseport_told(int group);

/* The caller has loaded the group's present state into the kernel. */
void av_reuseport_tell(int group);

/* --- blocks ----------------------------------------------------------------------- */

/* The owner of that number's block. 0: none. Lock-free. */
uint32_t av_reuseport_owner(uint32_t qpn);

/* Make @proc own the block of its @qpn. Return: false: another living owner has a number there */
AV_MUST_USE bool av_reuseport_own(uint32_t proc, uint32_t qpn);

/* === page users ================================================================== */

/*
 * Users of a shared block of pages, named by its context and offset; or of an imported block of
 * device memory, named by AV_PAGE_USERS_DM(). A user is a process that has a region on the block.
 * Each holds a record lock in the directory. The kernel drops the lock when the process ends in any
 * way, so a killed process leaves no wrong count. Context: waits for the change lock.
 */

/* @index: of the block's key. No block of pages has such an offset. */
#define AV_PAGE_USERS_DM(index) ((uint64_t)(index) << 12 | 1)

/*
 * This process uses the block once more. The caller then checks the block again, because it may
 * have changed meanwhile. Return: 0; ENOMEM; EBUSY
 */
AV_MUST_USE int av_page_users_join(uint32_t ref, uint64_t at);

/*
 * This process uses the block once less. If no process uses it any more, calls @last, unless NULL,
 * within a change of the directory: nobody can begin to use the block meanwhile. Without the change
 * lock it cannot know, and does not. Return: true: no process uses it any more
 */
bool av_page_users_leave(uint32_t ref, uint64_t at, void (*last)(void *arg), void *arg);

/* Does any process use the block, including this one? True, too, if the change lock timed out. */
bool av_page_users_any(uint32_t ref, uint64_t at);

/* In a forked child: it inherits no record locks, so it uses none. */
void av_page_users_forked(void);
