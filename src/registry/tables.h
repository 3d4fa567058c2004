/* SPDX-License-Identifier: MIT */
/* Tables of the directory that hosts and processes share. */
#ifndef AV_REGISTRY_TABLES_H
#define AV_REGISTRY_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "registry/directory.h"

/* === capture table =============================================================== */

/*
 * The running captures: which traffic is written to which file. In the directory, because the
 * executor of a request writes its frames, perhaps another process than the one that posted it.
 *
 * A capture covers the contexts of one process or of all, and one device or all. It ends when
 * somebody ends it, or with the process that began it.
 *
 * Context: the directory is joined. Beginning and ending change it; everything else is lock-free.
 */

/* Contexts see it only after av_capture_watch(). Return: its number (> 0), or -ENOSPC. */
AV_MUST_USE int av_capture_begin(const struct av_capture_spec *spec);
void av_capture_end(unsigned int number);

/*
 * Walk the captures that cover a context: its process, its @device (at most 64 bytes are compared;
 * NULL: any).
 * @at: in and out, 0 to begin. Asks now and then whether those who began them live, and skips those
 * of the dead. Return: the number of the next capture, or 0 after the last.
 */
unsigned int av_capture_find(uint32_t proc, const char *device, unsigned int *at);

/* Does a capture cover this process? One load, if none was ever begun. */
static inline bool av_capture_is_on(void)
{
	unsigned int at = 0;

	return av_unlikely(atomic_load_explicit(&av_dir->capture_end, memory_order_relaxed)) &&
	       av_capture_find(av_lock_self, NULL, &at);
}

/* The stamp of the capture that has this number now: each has another one. 0: none. */
uint32_t av_capture_stamp(unsigned int number);

/* Did this process begin the capture, since it last joined the directory? */
bool av_capture_is_mine(unsigned int number, uint32_t stamp);

/* Fill in @spec. Return: false if the capture is over or @stamp is that of another one. */
bool av_capture_spec(unsigned int number, uint32_t stamp, struct av_capture_spec *spec);

/*
 * Reserve @frames frames of the capture with this stamp; each must be settled, by
 * av_capture_written() or av_capture_untake(). Return: how many may be written; fewer at the end.
 */
uint64_t av_capture_take(unsigned int number, uint32_t stamp, uint64_t frames);

/* @frames reserved frames are in the file. */
void av_capture_written(unsigned int number, uint64_t frames);

/* @frames reserved frames will not be written: they count as lost. */
void av_capture_untake(unsigned int number, uint64_t frames);

/* Nobody can reserve frames any more. Earlier ones may still be on their way to the file. */
void av_capture_close(unsigned int number);

/* Writing failed with @err: nobody tries any more. */
void av_capture_stop(unsigned int number, int err);

/* Count @frames frames as lost that were never reserved. */
void av_capture_lost(unsigned int number, uint64_t frames);

struct av_capture_state {
	uint64_t frames, lost;
	int err;      /* the error that stopped it, or 0 */
	bool over;    /* it failed, has all its frames or is closed */
	bool settled; /* no counted frame is still to be written */
};
struct av_capture_state av_capture_state(unsigned int number);

/* === cm ports ==================================================================== */

/*
 * Port numbers of the connection manager: which process has bound which, and who listens. Kept in
 * the directory, so that its processes share one space of numbers, as those of a host do in the
 * kernel. Rows of dead processes count as free.
 */

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

/* === multicast =================================================================== */

/* Which queue pairs of this host are attached to which multicast group; kept in the directory. */

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

/* === reuseport =================================================================== */

/* Processes that share an address: which numbers are whose, and where packets are passed on. */

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

/* === page users ================================================================== */

/*
 * Who holds a shared block of pages, named by its context and offset, or an imported block of
 * device memory, named by AV_PAGE_USERS_DM(): every process that has a region on it. Each has a
 * record lock in the directory, which the kernel drops when the process ends in any way: there is
 * no count that a killed process could leave wrong.
 * Context: the directory is joined; blocks on its lock.
 */

/* @index: of the block's key. No block of pages begins there. */
#define AV_PAGE_USERS_DM(index) ((uint64_t)(index) << 12 | 1)

/* What the caller knew about the block may be out of date now: look again. Return: 0 or ENOMEM. */
AV_MUST_USE int av_page_users_join(uint32_t ref, uint64_t at);

/*
 * This process holds the block once less. @last, if any, is called, within a change of the
 * directory, if no process holds it any more; nobody can begin to meanwhile. Return: was it called?
 */
bool av_page_users_leave(uint32_t ref, uint64_t at, void (*last)(void *arg), void *arg);

/* Does any process hold it, including this one? */
bool av_page_users_any(uint32_t ref, uint64_t at);

#endif
