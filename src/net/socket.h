/* SPDX-License-Identifier: MIT */
/* Sockets at UDP port 4791: of an address, and of a multicast group. */
#ifndef AV_NET_SOCKET_H
#define AV_NET_SOCKET_H

#include <linux/filter.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "net/net.h"

/* === endpoint ==================================================================== */

/* The sockets of this process: which there are, and for which address. */

#define AV_ENDPOINTS 512 /* that a process can have */

enum av_endpoint_kind {
	AV_ENDPOINT_ADDRESS, /* of an own address */
	AV_ENDPOINT_GROUP,   /* of a multicast group */
	AV_ENDPOINT_PASSED,  /* where others pass packets on to (net/socket.h) */
};

struct av_endpoint {
	enum av_endpoint_kind kind;
	uint8_t address[16]; /* own, or of the group */
	uint32_t ifindex;
	unsigned int users; /* guarded by who opens and closes: net/open.c */
	struct av_own_fd socket;
	_Atomic bool single; /* the kernel cuts nothing apart here: no UDP_SEGMENT */

	/* Of AV_ENDPOINT_ADDRESS: net/socket.c. The last two are owned by who receives. */
	_Atomic int group; /* who shares it; -1: nobody */
	uint32_t drained;  /* what the kernel had been told when nothing was left */
	uint64_t repair_after;
};

/*
 * Have it found from now on. It stays the caller's, who takes it out before it closes the socket.
 * Return: false: there are too many
 */
AV_MUST_USE bool av_endpoint_add(struct av_endpoint *e);

/* Nobody finds it any more. Who has found it may still use it: see av_endpoint_find(). */
void av_endpoint_remove(struct av_endpoint *e);

/*
 * NULL: there is none. @ifindex: 0: any. It stays valid as long as the caller knows it to be open.
 */
struct av_endpoint *av_endpoint_find(enum av_endpoint_kind kind, const uint8_t address[16],
				     uint32_t ifindex);

/* A different number after each change. */
unsigned int av_endpoint_version(void);

/* All of them, as they are now. Return: how many */
unsigned int av_endpoint_all(struct av_endpoint *all[AV_ENDPOINTS]);

/* What to wait for in poll(2). Return: how many; those that the program has closed are left out */
unsigned int av_endpoint_poll(struct pollfd all[AV_ENDPOINTS]);

/* In a forked child: close its copies of the sockets, and forget them. */
void av_endpoint_forked(void);

/* Questions to kernels on the way to another host, within net/. net.h has the others. */

/* No address is open any more, or this is a forked child: there were no questions. */
void av_net_icmp_end(void);
void av_net_icmp_forked(void);

/* === gro split =================================================================== */

/*
 * Packets out of what a socket hands over: the kernel joins datagrams that came one after another
 * (UDP_GRO). Pure functions, of bytes from strangers.
 */

/* Datagrams of one flow, joined. */
struct av_gro_split {
	struct av_net_path path;
	uint16_t source_port;
	bool congested;
	const uint8_t *bytes; /* borrowed */
	size_t count;
	size_t segment; /* each has so many bytes but the last, which has the rest; 0: it is one */
	size_t at;	/* where the next one begins: 0 at first */
	uint16_t identification; /* of the last one, if it is a packet */
};

/*
 * Cut the next one off. @p: out, what it says; its payload stays in @cut. Return: false: that was
 * the last. @fault: out, AV_NET_COUNTS if it is a packet, else AV_NET_SHORT, or
 * AV_NET_BAD_CRC with a @p that may be wrong
 */
AV_MUST_USE bool av_gro_next(struct av_gro_split *cut, struct av_net_packet *p,
			     enum av_net_count *fault);

/* === socket ====================================================================== */

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
 * network, unless it is kept (net/socket.h).
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
 * functions. Where the numbers come from: registry/tables.h.
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
 * (registry/tables.h). Until it knows, or if it refuses, it misroutes packets, and
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

/* === burst ======================================================================= */

/* Bursts within net/; the rest of them is in net/net.h. */

struct av_net_path;

/* Write the ICRC of a packet of ours. @identification: which the kernel will give it */
void av_burst_put_icrc(const struct av_net_path *path, uint8_t *packet, size_t bytes,
		       uint16_t identification);

/* In a forked child, whatever locks were held. */
void av_burst_forked(void);

/* === inbound ===================================================================== */

/* What comes in, and who gets it. */

/*
 * Messages of management that another process owns and has no room for now: they wait here. A
 * process's socket takes only a few (net.unix.max_dgram_qlen), and a peer that ends thousands of
 * connections says everything again at the same moments. What is lost once would be lost each time.
 *
 * Context of all: by who receives, or nobody does (av_inbound_pause())
 */

/*
 * @f: wakes the thread that calls backlog_again() from time to time, if another one has received
 * the first that waits. Set before the first packet comes.
 */
void av_backlog_wake_by(void (*f)(void));

/* Does anything wait? Context: any */
bool av_backlog_waits(void);

/* What waits is lost. */
void av_backlog_drop(void);

/* In a forked child: what waits is the parent's. */
void av_backlog_forked(void);

/* Receiving: what comes in by the sockets, and who gets it. */

/* Have buffers, once for the life of the process. Waits for who receives. Return: 0 or -ENOMEM */
AV_MUST_USE int av_inbound_prepare(void);

/*
 * Take what has come, and hand it to the receiver. Never waits for packets. @wait: for another
 * thread that is doing so; @taken: out, datagrams; @drained: out, nothing is left, as far as is
 * known. Return: false: another thread is doing so
 */
bool av_inbound_take(bool wait, unsigned int *taken, bool *drained);

/* Show datagrams to the receiver's captures. */
void av_inbound_seen(const struct av_net_seen *seen);

/* How many times av_net_poll() has taken packets. */
unsigned int av_inbound_polled(void);

/* When it has looked for some last, CLOCK_MONOTONIC; 0: never */
uint64_t av_inbound_looked_ns(void);

/*
 * Nobody receives until av_inbound_resume(): sockets can be closed. Waits for who does. Context:
 * not within the receiver
 */
void av_inbound_pause(void);
void av_inbound_resume(void);

/* In a forked child, whatever locks were held. */
void av_inbound_forked(void);

/* === open ======================================================================== */

/*
 * The addresses that this process receives for, and the thread that takes packets while nobody
 * polls.
 */

/* The thread that sleeps until packets come, for when nobody polls. */

/* Have it run. Context: one at a time, as for listen_end(). Return: 0 or -errno */
AV_MUST_USE int av_listen_begin(void);

#endif
