/* SPDX-License-Identifier: MIT */
/* What the files of net/ share: sockets, steering, the receiving thread. Others use net/net.h. */
#pragma once

#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/file.h"
#include "net/net.h"

/* === endpoint ==================================================================== */

/* A socket of this process, and what the socket is for. */

#define AV_ENDPOINTS 512 /* most endpoints of a process */

enum av_endpoint_kind {
	AV_ENDPOINT_ADDRESS, /* packets for an own address */
	AV_ENDPOINT_GROUP,   /* packets for a multicast group */
	AV_ENDPOINT_PASSED,  /* packets that other processes forward */
};

struct av_endpoint {
	enum av_endpoint_kind kind;
	uint8_t address[16]; /* own, or of the group */
	uint32_t ifindex;
	unsigned int users; /* guarded by the mutex of net/open.c */
	struct av_own_fd socket;
	_Atomic uint64_t looked; /* of av_own_fd_use() */
	_Atomic bool single;	 /* UDP_SEGMENT does not work: send packets one by one */

	/* AV_ENDPOINT_ADDRESS only. The receiving thread owns all but the first. */
	_Atomic int group; /* the table of processes that share the address; -1: none */
	uint32_t drained;  /* @told when the socket was last empty */
	uint32_t told;	   /* number of the attached program (av_reuseport_told()); 0: outdated */
	bool sure;	   /* so program @told has routed all packets that are in the socket */
	uint64_t repair_after;
};

/*
 * Find an endpoint. @ifindex: 0: any interface. The endpoint stays valid while the caller knows
 * that the address is open. Context: any thread, as the next two. Return: NULL: there is none
 */
struct av_endpoint *av_endpoint_find(enum av_endpoint_kind kind, const uint8_t address[16],
				     uint32_t ifindex);

/*
 * Copy the list of endpoints, if it has changed since *@version (0: the caller has no copy), and
 * its version. Return: has it changed?
 */
bool av_endpoint_refresh(struct av_endpoint *all[AV_ENDPOINTS], unsigned int *count,
			 unsigned int *version);

/* List the sockets for poll(2), but not those that the program has closed. Return: how many */
unsigned int av_endpoint_poll(struct pollfd all[AV_ENDPOINTS]);

/* === socket ====================================================================== */

/* What packets have if a send tells nothing else: those of most reliable connections do. */
#define AV_NET_USUAL_CLASS AV_NET_ECN_CAPABLE
#define AV_NET_USUAL_HOPS  255

/* Make an endpoint's socket, which receives nothing yet. Return: 0, or -errno: there is none */
AV_MUST_USE int av_socket_make(struct av_endpoint *e);

/*
 * Bind the socket: it receives from then on. The socket of an own address joins the group of
 * processes that share the address. If the port is in use, this waits up to 200 ms: the kernel may
 * not have closed a dead process's socket yet. Context: the mutex of net/open.c is held; waits as
 * av_dir_change_begin(). Return: 0. -EBUSY: av_dir_change_begin(); -ENOSPC: too many groups or
 * members; -EADDRINUSE: another user, or the kernel's rdma_rxe, uses the port; else -errno of
 * binding
 */
AV_MUST_USE int av_socket_bind(struct av_endpoint *e);

/* Close a socket that was bound. Context: no thread receives from it */
void av_socket_close(struct av_endpoint *e);

/*
 * Find the datagrams in what recvmmsg(2) received by @e. @cut: out; its bytes are borrowed from
 * the buffer of @got. Return: false: drop it. It has no form that a process forwards; or no hop
 * limit, which each socket of ours reports, so the program has put another socket in its place
 */
AV_MUST_USE bool av_datagram_get(struct av_gro_split *cut, const struct av_endpoint *e,
				 struct mmsghdr *got);

/*
 * Forwarding packets to the process that owns their queue pair. Each process has a socket in the
 * directory's folder, to which only this user has access. Packets that do not fit into that socket
 * are lost, as on any network. Only management packets wait (av_misrouted_forward()).
 */

/*
 * Forward all datagrams of @cut to process @owner. @own: this process's socket. Never blocks. With
 * @waits, datagrams that do not fit wait in the backlog until av_backlog_again(), and so do later
 * ones for that process. The backlog drops what has waited for 10 s, or finds no memory.
 *
 * That socket takes only a few datagrams (net.unix.max_dgram_qlen). A peer that ends thousands of
 * connections retransmits all its messages at the same moments, so packets that were dropped once
 * would be dropped each time. While packets wait, the listening thread tries every millisecond.
 * Context: the receiving thread, as av_backlog_again()
 */
void av_misrouted_forward(const struct av_own_fd *own, uint32_t owner,
			  const struct av_gro_split *cut, bool waits);

/* Forward datagrams of the backlog, as far as they fit. */
void av_backlog_again(const struct av_own_fd *own);

/* Is the backlog in use? Context: any thread; lock-free */
bool av_backlog_waits(void);

/* In a forked child: forget the parent's backlog. */
void av_socket_forked(void);

/*
 * The steering program: classic BPF (SO_ATTACH_REUSEPORT_CBPF) that chooses the socket of a
 * packet's owner at a shared address. Pure functions. Places, blocks: registry/tables.h.
 */

#define AV_STEER_MAX 4096 /* most instructions that the kernel accepts: BPF_MAXINSNS */

/* Blocks from @first up to the next run's @first: their packets go to the socket at @place. */
struct av_steer_run {
	uint32_t first;
	uint32_t place; /* index into the kernel's array of sockets */
};

/* Most runs whose program fits AV_STEER_MAX: two instructions each, and some for long jumps. */
#define AV_STEER_RUNS 2000

/*
 * Make the runs of a table with @blocks entries. A block without an owner (AV_REUSEPORT_NOBODY)
 * joins the run before it. If AV_STEER_RUNS, the room of @run, are too few, the last covers all
 * remaining blocks, with place AV_REUSEPORT_NOBODY. Return: number of runs, at least 1
 */
unsigned int av_steer_runs(const uint32_t *place, unsigned int blocks, struct av_steer_run *run);

/*
 * Make the program. @runs: at most AV_STEER_RUNS; the first begins with block 0. For
 * AV_REUSEPORT_NOBODY it returns an index out of range: the kernel takes any socket. Packets
 * without a queue pair number go to place 0. @program: AV_STEER_MAX. Return: number of instructions
 */
unsigned int av_steer_program(const struct av_steer_run *run, unsigned int runs,
			      struct sock_filter *program);

/*
 * A group: the processes that share an address (registry/tables.h). While the attached program is
 * outdated or refused, the kernel misroutes packets, and whoever receives them forwards them.
 */

/* Leave the group: the program has closed the endpoint's socket. Context: the receiving thread */
void av_group_lost(struct av_endpoint *e);

/* As av_net_own(), at these endpoints, which stay open. Waits as av_dir_change_begin(). */
int av_group_own(uint32_t qpn, struct av_endpoint *const *e, unsigned int count);

/* Note the attached program before receiving, as it routes later packets. The receiving thread */
void av_group_look(struct av_endpoint *e);

/*
 * Repair the group: a packet for a queue pair of @owner, another process, arrived at endpoint @e
 * after av_group_look(). Does nothing if the last repair was less than 10 ms ago.
 * @first: of the packets that the kernel joined; the others show nothing about its choice.
 * Context: the receiving thread; waits as av_dir_change_soon()
 */
void av_group_misrouted(struct av_endpoint *e, uint32_t owner, uint32_t qpn, bool first);

/* === burst ======================================================================= */

/* Drop all probes of av_net_icmp_probe(): no address is open any more. */
void av_net_icmp_end(void);

/* In a forked child: reset the cache of bursts, whose lock may have a holder, and drop probes. */
void av_burst_forked(void);

/* === inbound ===================================================================== */

/* One thread at a time receives: it holds the mutex of inbound.c. */

/*
 * Allocate the buffers, once for the life of the process, and start the listening thread. Context:
 * the mutex of net/open.c is held, as in the next; waits for a receiver. Return: 0 or -errno
 */
AV_MUST_USE int av_inbound_begin(void);

/* End the listening thread. Context: it has begun; not within the receiver */
void av_inbound_end(void);

/*
 * When the listening thread polls before it sleeps, since a wake-up takes ten times as long as a
 * poll. It polls if the last four packets came within AV_LOOK_NS of each other, whichever thread
 * took them. It stops when none has come for AV_LOOK_NS, and does not poll again for ten times as
 * long; for a thousand times as long if another thread wants its core. Pure functions.
 */
#define AV_LOOK_NS   100000u
#define AV_LOOK_PAYS 4u

struct av_look {
	uint64_t came_ns;  /* when packets came last */
	uint64_t rest_ns;  /* it does not look until then */
	unsigned int pays; /* how many in a row came in time */
};

static inline void av_look_came(struct av_look *l, uint64_t now_ns)
{
	l->pays = now_ns - l->came_ns <= AV_LOOK_NS ? l->pays + 1 : 0;
	l->came_ns = now_ns;
}

/* @wanted: another thread wants the core. Return: does the listening thread poll now? */
static inline bool av_look_goes_on(struct av_look *l, uint64_t now_ns, bool wanted)
{
	if (l->pays < AV_LOOK_PAYS || now_ns < l->rest_ns)
		return false;
	if (!wanted && now_ns - l->came_ns <= AV_LOOK_NS)
		return true;
	l->rest_ns = now_ns + (wanted ? 1000 : 10) * (uint64_t)AV_LOOK_NS;
	l->pays = 0;
	return false;
}

/*
 * Polls in a row that found no packet, since one was sent or came. After many, most polls do not
 * look: that would be a system call for each poll of a program whose peers are all on this host,
 * but which has datagram queue pairs. Then the listening thread takes the first packet that comes.
 * A hint: threads race for it.
 */
extern _Atomic unsigned int av_net_in_vain __attribute__((visibility("hidden")));

/* Wake the listening thread: endpoints have changed, or the backlog is in use. Any thread */
void av_inbound_wake(void);

/* Pass datagrams to the receiver's captures. Context: as struct av_net_receiver, @seen */
void av_inbound_seen(const struct av_net_seen *seen);

/* Stop receiving, to close sockets, until av_inbound_resume(). Waits for a thread that receives. */
void av_inbound_pause(void);
void av_inbound_resume(void);

/* In a forked child, without a listening thread: reset the lock, which may have a holder. */
void av_inbound_forked(void);
