/* SPDX-License-Identifier: MIT */
/*
 * RoCEv2 packets to and from other hosts: this process's sockets at UDP port 4791.
 *
 * Each process is its own RoCE port, with one socket for each address that its queue pairs use. All
 * processes of the user share the UDP port (SO_REUSEPORT). A classic BPF program steers each packet
 * to the process that owns the destination queue pair (net/socket.h). While that program is
 * outdated, a packet may reach another process, which forwards it to the owner.
 *
 * Threads that poll a CQ also receive packets. While nobody polls, the listening thread of this
 * folder sleeps until packets arrive: a wake-up takes ten times as long as a poll.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "registry/directory.h"
#include "wire/packet.h"

/* A packet that this process received, with a correct ICRC. */
struct av_net_packet {
	struct av_net_path path;  /* the sender's: @dst is an address of this host, or a group */
	struct av_packet packet;  /* its payload is borrowed until the callee returns */
	struct av_qp_location qp; /* of the queue pair that it names; not known of a group's */
};

/* Low bits of a traffic class, RFC 3168, 5: a packet that switches may mark, and a marked one */
#define AV_NET_ECN_CAPABLE 2u
#define AV_NET_CONGESTED   3u

static inline bool av_net_is_congested(const struct av_net_path *path)
{
	return (path->traffic_class & AV_NET_CONGESTED) == AV_NET_CONGESTED;
}

/* A UDP datagram, unchanged. */
struct av_net_datagram {
	const uint8_t *bytes; /* from the BTH to the end of the ICRC, if it is a packet */
	size_t count;
	uint16_t identification; /* of the IPv4 header; 0: not known */
	bool unknown_queue;	 /* received: no process owns its queue pair */
	bool damaged;		 /* received: its ICRC is wrong */
};

/* Datagrams that this process sent or received, for captures. All pointers are borrowed. */
struct av_net_seen {
	const struct av_net_path *path; /* without the identification */
	const char *device;		/* that sent them; NULL: they were received */
	uint64_t time_ns; /* CLOCK_REALTIME of the system call that sent or received them */
	const struct av_net_datagram *datagram;
	unsigned int count;
};

/*
 * Handles packets that arrive. Context, unless stated: the receiving thread, of which a process has
 * one at a time. It holds the lock of receiving, and no other
 */
struct av_net_receiver {
	/*
	 * Handle packets for an own queue pair or a group. They arrived in this order, by one
	 * socket. Takes queue pair locks, waits for pages.
	 */
	void (*packets)(const struct av_net_packet *p, unsigned int count);
	/*
	 * Send what waits to be sent, but for what may wait beyond @now_ns; UINT64_MAX: all. Called
	 * when all packets that arrived together have been handled, and after av_net_settle_soon().
	 * Return: when to call again, in ns of av_now_ns(); UINT64_MAX: nothing waits
	 */
	uint64_t (*settled)(uint64_t now_ns);
	/*
	 * Packets of this process, before packets() gets them, or after they were sent; called only
	 * while a capture may run. Context: any thread; queue pair locks may be held; keeps errno
	 */
	void (*seen)(const struct av_net_seen *seen);
	/* A packet with a wrong ICRC was dropped. @qpn may be wrong, too. */
	void (*damaged)(uint32_t qpn);
};

/* Set the receiver, once, before the first av_net_open(). @receiver is borrowed for ever. */
void av_net_receive_by(const struct av_net_receiver *receiver);

#define AV_NET_MANAGEMENT_QPN 1u /* the general services interface; IBTA volume 1, 13.5.1 */

/* Handles packets to queue pair 1. Context: as struct av_net_receiver */
struct av_net_manager {
	/* Return: the process whose packet() is to get this packet; 0: none */
	uint32_t (*owner)(const struct av_net_packet *p);
	void (*packet)(const struct av_net_packet *p);
};

/* Set the manager, once, before the first av_net_hold(). @manager is borrowed for ever. */
void av_net_manage_by(const struct av_net_manager *manager);

/*
 * Receive packets for @address, a GID of an own device, in this thread's network namespace. Each
 * call adds a user. av_net_close() removes one. The last one closes the socket.
 * @polls: sets av_net_is_open. For management packets it does not: the listening thread receives
 * them, and pollers are not slowed down
 * Context: the directory is joined; not within the receiver, and no lock held that the receiver
 * takes: it may wait for the receiver. May start a thread; keeps errno.
 * Return: 0. -EADDRINUSE: the kernel's rdma_rxe, or a process of another user or directory, uses
 * the port; -EADDRNOTAVAIL: no interface has the address; -EBUSY: av_dir_change_begin(); -ENOSPC:
 * too many sockets; -EMFILE, -ENFILE, -ENOMEM
 */
AV_MUST_USE int av_net_open(const uint8_t address[16], bool polls);

/*
 * Log that there are no packets at @address, since av_net_open() returned @err. Warns at most once
 * per process that the port is in use, and that the directory is blocked. Logs other errors at
 * level "info". Any thread. A caller that can do without packets warns only before it sends one.
 */
void av_net_warn(const uint8_t address[16], int err);

/*
 * Undo one av_net_open(). Context: as there. The last user unpublishes the socket, calls @quiet,
 * and then closes the socket.
 * @quiet: waits for the threads that found the socket before, until they have sent. It is called
 * without a lock of this folder, and may wait for the receiver. NULL: no thread sends from @address
 */
void av_net_close(const uint8_t address[16], bool polls, void (*quiet)(void));

/*
 * Has @address moved from its socket's interface to another one, in this thread's network
 * namespace? Then a link-local address receives nothing until all users have closed it. Context: as
 * av_net_open()
 */
AV_MUST_USE bool av_net_has_moved(const uint8_t address[16]);

/*
 * Receive the packets that other processes of the directory forward to this one, even without an
 * open address. av_net_release() undoes one call. Context: as av_net_open(). Return: 0 or -errno
 */
AV_MUST_USE int av_net_hold(void);
void av_net_release(void);

/*
 * Send a packet to a process of this directory without a network, as if it had arrived along @path.
 * @packet: from the BTH to the end of the ICRC, which this function writes; @bytes in all.
 * Context: between av_net_hold() and av_net_release(); never blocks; keeps errno
 * Return: 0. -EAGAIN: that process's socket is full for now; -ECONNREFUSED, -ENOENT: the process
 * does not hold; -ENOTCONN: this one has no socket for it
 */
int av_net_pass(uint32_t proc, const struct av_net_path *path, uint8_t *packet, size_t bytes);

/*
 * Steer packets for queue pair @qpn to this process, at all addresses, since a block of numbers
 * belongs to one process. As av_net_open(); @address is open. Return: 0. -ENOSPC: another living
 * process has numbers of the block; -EBUSY: av_dir_change_begin(). On failure, the processes that
 * get these packets forward them.
 */
int av_net_own(const uint8_t address[16], uint32_t qpn);

/*
 * Receive packets of a multicast group (IGMP, MLD) by the interface of an open @address, until as
 * many av_net_leave(). Context: as av_net_open(). Return: 0. -EADDRNOTAVAIL: @address is not open,
 * @group is no group, or their families differ; else as av_net_open()
 */
AV_MUST_USE int av_net_join(const uint8_t address[16], const uint8_t group[16]);
void av_net_leave(const uint8_t address[16], const uint8_t group[16]);

/*
 * Receive the packets that have arrived, and hand them to the receiver. Does nothing while another
 * thread receives. If many calls in a row have found none, and none was sent meanwhile, only one
 * call of 512 looks. Context: no lock held; keeps errno. Return: were there any?
 */
bool av_net_poll(void);

/*
 * Receive all packets that have arrived, then have the receiver send everything that waits. For a
 * caller that is about to declare an answer late: while the process was stopped, answers may have
 * come to its sockets. Bounded. Context: as av_net_poll(). Return: false: another thread receives
 */
AV_MUST_USE bool av_net_catch_up(void);

/*
 * Run @f (NULL: nothing) while no thread receives, then have the receiver send everything that
 * waits. Context: no lock held; not within the receiver.
 * @wait: wait for a thread that receives. Return: false: a thread receives, and @f has not run
 */
bool av_net_in_turn(void (*f)(void *arg), void *arg, bool wait);

/* Have the next av_net_poll() call the receiver's settled(). Context: any thread; lock-free */
void av_net_settle_soon(void);

/* Has av_net_open() opened any address? Pollers read this before they call av_net_poll(). */
extern _Atomic bool av_net_is_open __attribute__((visibility("hidden")));

/* --- sending --------------------------------------------------------------------- */

/*
 * Packets to one queue pair, collected to save system calls: if the kernel can split them
 * (UDP_SEGMENT), one call sends several of one length; the last may be shorter.
 */
struct av_net_burst;

/*
 * Begin a burst along @path, from port AV_ROCE_PORT. One thread uses it, until av_net_send().
 * @device: the sending device's name, borrowed until then. Context: any queue pair lock may be
 * held. No function of bursts blocks, except on the files of captures when packets are sent.
 * Return: NULL: @path's source is not open, or no memory; the caller treats its packets as lost
 */
struct av_net_burst *av_net_burst(const struct av_net_path *path, const char *device);

/*
 * Append a packet; if av_net_begins_send(), sends the earlier ones. Return: where the caller writes
 * its payload, before those of this send leave
 */
uint8_t *av_net_put(struct av_net_burst *burst, const struct av_packet *p);

/* Would @p be the first packet of a send of its own, rather than follow what @burst has? */
bool av_net_begins_send(const struct av_net_burst *burst, const struct av_packet *p);

/* Packets of a full send, of @bytes of payload each: one of few takes the kernel nearly as long. */
uint32_t av_net_full_send(uint32_t bytes);

/* Have the packet that av_net_put() has just appended ask for an acknowledgement. */
void av_net_ask(struct av_net_burst *burst);

/* Remove the last @count packets, none of which began a send but the first of them. */
void av_net_take_back(struct av_net_burst *burst, uint32_t count);

/*
 * Has the interface's queue room for av_net_room() more packets, of @bytes of payload each? If not,
 * this host sends faster than the interface, and may lose what it sends next. True if the source of
 * @path is not open. Context: one system call, never blocks; any queue pair lock may be held
 */
bool av_net_has_room(const struct av_net_path *path);
uint32_t av_net_room(uint32_t bytes);

/*
 * Send the rest of the burst, and free it. Packets that the kernel refuses are lost, as on any
 * network. Context: as av_net_burst(); keeps errno. Return: 0, or the first error of the burst:
 * -ENETUNREACH, -EHOSTUNREACH, -ECONNREFUSED, -EPERM, -EMSGSIZE, -EAGAIN ...
 */
int av_net_send(struct av_net_burst *burst);

/* --- why a peer does not answer -------------------------------------------------- */

/*
 * Send a probe along @path: a datagram that every receiver drops. The probe has its own socket,
 * which collects the ICMP errors. At a queue pair's socket such an error would fail the next send,
 * to any destination. A few probes may be outstanding; one more may replace another.
 * Context: makes system calls, never blocks; any queue pair lock may be held; keeps errno
 */
void av_net_icmp_probe(const struct av_net_path *path);

/*
 * The error that the probe of @path has met so far. Closes the probe's socket. Context: as above
 * Return: 0: none, or no probe. -ENETUNREACH, -EHOSTUNREACH: no route to that host; -ECONNREFUSED:
 * no process has the port there; -EPERM: a firewall of this host; another -errno
 */
AV_MUST_USE int av_net_icmp_error(const struct av_net_path *path);

/* --- counters -------------------------------------------------------------------- */

/* Packets of this process, and the reasons why some did not reach a queue pair of this process. */
enum av_net_count {
	AV_NET_IN,
	AV_NET_OUT,
	AV_NET_SHORT,	  /* dropped: not a RoCEv2 packet */
	AV_NET_BAD_CRC,	  /* dropped: its ICRC is wrong */
	AV_NET_MISROUTED, /* another process owns the queue pair: forwarded to that process */
	AV_NET_NOBODY,	  /* dropped: no process of this directory has that queue pair */
	AV_NET_COUNTS
};

extern _Atomic uint64_t av_net_counter[AV_NET_COUNTS] __attribute__((visibility("hidden")));

/* Context: any thread; lock-free */
static inline void av_net_count(enum av_net_count what, uint64_t packets)
{
	atomic_fetch_add_explicit(&av_net_counter[what], packets, memory_order_relaxed);
}
