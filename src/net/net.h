/* SPDX-License-Identifier: MIT */
/*
 * RoCEv2 packets to and from other hosts: this process's sockets at UDP port 4791.
 *
 * Each process is its own port. It has a socket for each address that its queue pairs use, from the
 * first one that needs it. All processes of the user share the port (SO_REUSEPORT); a classic BPF
 * program hands each packet to the process that owns the destination queue pair (net/socket.h). A
 * packet that comes to the wrong process, since the program is being changed, is passed on.
 *
 * A thread sleeps until packets come. Whoever polls a CQ takes them first: a wake-up takes ten
 * times as long as a look.
 */
#ifndef AV_NET_NET_H
#define AV_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

/* Where packets of a flow come from and go to. Addresses are GIDs. */
struct av_net_path {
	uint8_t src[16], dst[16];
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label; /* IPv6 only */
};

/* A packet that came, with a correct ICRC. */
struct av_net_packet {
	struct av_net_path path; /* as it was sent: @dst is the own address, or a group */
	struct av_packet packet; /* the payload is borrowed until the function returns */
	bool congested;		 /* marked on its way: explicit congestion notification */
};

/* A datagram of UDP, as it was. */
struct av_net_datagram {
	const uint8_t *bytes; /* from the BTH to the end of the ICRC, if it is a packet */
	size_t count;
	uint16_t identification; /* of the IPv4 header; 0: not known */
	bool unknown_queue;	 /* it has come for a queue pair that nobody has */
	bool damaged;		 /* it has come, and its ICRC is wrong */
};

/* Datagrams that were sent or have come, for captures. All is borrowed. */
struct av_net_seen {
	const struct av_net_path *path;
	const char *device; /* by which they were sent; NULL: they have come */
	uint16_t source_port;
	uint64_t time_ns; /* CLOCK_REALTIME: when the kernel got them, or gave them to us */
	const struct av_net_datagram *datagram;
	unsigned int count;
};

/* What becomes of packets. Context: one packet at a time in this process; no lock is held. */
struct av_net_receiver {
	/* For a queue pair of this process, or a group. Takes execution rights, waits for pages. */
	void (*packet)(const struct av_net_packet *p);
	/* No more packets for now: acknowledge what came. */
	void (*settled)(void);
	/*
	 * Packets of this process, before they are handed over, or when they have been sent. Only
	 * while there may be captures. Context: any thread; rights may be held; keeps errno
	 */
	void (*seen)(const struct av_net_seen *seen);
	/* A packet with a wrong ICRC was dropped. What it says may be wrong: @qpn, too */
	void (*damaged)(uint32_t qpn);
	/* In a forked child: what has come is the parent's. NULL: nothing to do */
	void (*forked)(void);
};

/* Set once, before the first av_net_open(). @receiver is borrowed for ever. */
void av_net_receive_by(const struct av_net_receiver *receiver);

#define AV_NET_MANAGEMENT_QPN 1u /* the general services interface; IBTA volume 1, 13.5.1 */

/* What becomes of packets to queue pair 1. Context: as struct av_net_receiver */
struct av_net_manager {
	/* Whose is it? Return: a process, whose packet() gets it; 0: nobody's */
	uint32_t (*owner)(const struct av_net_packet *p);
	void (*packet)(const struct av_net_packet *p);
};

/* Set once, before the first av_net_hold(). @manager is borrowed for ever. */
void av_net_manage_by(const struct av_net_manager *manager);

/**
 * av_net_open() - have packets for @address come to this process
 * @address: a GID of an own device, in this thread's network namespace
 *
 * Opening it again adds a user. Each is given back by av_net_close(). The last one closes the
 * socket.
 * Context: the directory is joined; no lock held; may start a thread. Return: 0, -EADDRINUSE:
 * the kernel's rdma_rxe, or a process of another user or directory, has the port; -EADDRNOTAVAIL:
 * no interface has the address; -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -EBUSY
 */
AV_MUST_USE int av_net_open(const uint8_t address[16]);

/*
 * Tell the user that there are no packets for want of that address, once. @err: of av_net_open()
 * Context: any. Whoever may do without packets tells it only when one is to be sent.
 */
void av_net_warn(const uint8_t address[16], int err);
void av_net_close(const uint8_t address[16]);

/*
 * The same for packets of management: only the listening thread takes them, and pollers are not
 * slowed down. av_net_leave_alone() gives it back. @quiet returns when no thread is sending from
 * the address that has begun before it was called; it may wait for the receiver.
 */
AV_MUST_USE int av_net_attend(const uint8_t address[16]);
void av_net_leave_alone(const uint8_t address[16], void (*quiet)(void));

/*
 * Has the address come to another interface than that of its socket, in this thread's network
 * namespace? Where the interface counts, as with link-local ones, nothing comes then until all give
 * the address back. Context: as av_net_open()
 */
AV_MUST_USE bool av_net_has_moved(const uint8_t address[16]);

/*
 * Receive what other processes of the directory pass on to this one, without an address.
 * av_net_release() ends it. Context: as av_net_open(). Return: 0 or -errno
 */
AV_MUST_USE int av_net_hold(void);
void av_net_release(void);

/*
 * Give a packet to a process of this directory, by way of no network: it gets it as if it had come
 * along @path. @packet: from the BTH to the end of the ICRC, which is written here.
 * Context: av_net_hold(); never waits
 * Return: 0; -EAGAIN: its socket is full for now; -ECONNREFUSED, -ENOENT: it does not hold
 */
int av_net_pass(uint32_t proc, const struct av_net_path *path, uint8_t *packet, size_t bytes);

/*
 * Have packets for that queue pair of this process come here. Context: as av_net_open(), and its
 * address is open. Return: 0; -ENOSPC, -EBUSY: they come by way of others
 */
int av_net_own(const uint8_t address[16], uint32_t qpn);

/* Receive packets of a multicast group (IGMP, MLD) on an open @address; and no longer. */
AV_MUST_USE int av_net_join(const uint8_t address[16], const uint8_t group[16]);
void av_net_leave(const uint8_t address[16], const uint8_t group[16]);

/*
 * Take the packets that have come, unless another thread is doing so. Context: no lock held, since
 * it calls the receiver. Return: true if there were any
 */
bool av_net_poll(void);

/*
 * Take all that has come, before time is judged: answers wait in the socket of a process that was
 * stopped, or had no core. Context: as av_net_poll(). Return: false: another thread is taking them
 */
AV_MUST_USE bool av_net_catch_up(void);

/*
 * Run @f in the receiver's turn: no packet is handed over meanwhile, and the receiver has settled
 * afterwards. @wait: for the thread that is receiving. Return: false: one is, and @f has not run.
 * Context: no lock held, not within the receiver
 */
bool av_net_in_turn(void (*f)(void *arg), void *arg, bool wait);

/* Does this process have a socket? What pollers look at before av_net_poll(). */
extern _Atomic bool av_net_is_open __attribute__((visibility("hidden")));

/* In a forked child: the parent's sockets and packets stay the parent's. */
void av_net_forked(void);

/* --- sending --------------------------------------------------------------------- */

/*
 * Packets on their way to one destination. They are sent together where the kernel can cut them
 * apart (UDP_SEGMENT): it wants equal lengths but for the last.
 */
struct av_net_burst;

/*
 * Begin a burst on a path whose source is open. NULL: no memory; then nothing is sent, as if it had
 * been lost. Of one thread. @device: that sends it, borrowed until the burst ends. Context: does
 * not wait, but for the files of captures when packets are sent
 */
struct av_net_burst *av_net_burst(const struct av_net_path *path, const char *device);

/*
 * Append a packet without its payload. Sends those before it if there is no room. Return: where
 * @p->payload_bytes of payload go, before the next call
 */
uint8_t *av_net_put(struct av_net_burst *burst, const struct av_packet *p);

/* The packet that was put last is not to be sent. */
void av_net_take_back(struct av_net_burst *burst);

/*
 * Has the interface room for more, namely av_net_room() packets with @bytes of payload each? Else
 * more is sent already than it gets rid of, and what is sent may be lost here.
 * Context: a system call, never waits; any right may be held
 */
bool av_net_has_room(const struct av_net_path *path);
uint32_t av_net_room(uint32_t bytes);

/*
 * Send what is in the burst, and end it. Never waits: what the kernel does not take is lost, as on
 * any network. Return: 0, or why the kernel refused one: -ENETUNREACH, -EHOSTUNREACH,
 * -ECONNREFUSED, -EPERM, -EMSGSIZE, -EAGAIN ...
 */
int av_net_send(struct av_net_burst *burst);

/* --- why does nobody answer? ----------------------------------------------------------- */

/*
 * Send a datagram that is no packet, which no receiver answers, along @path. What the kernels on
 * the way say of it is heard at a socket of its own: at those of queue pairs, the next send would
 * fail for it, whoever it is for. Context: makes system calls, never waits; any right may be held
 */
void av_net_icmp_watch(const struct av_net_path *path);

/*
 * What has been heard since. Context: as av_net_icmp_watch()
 * Return: 0: nothing, or there was no question; -errno: -ENETUNREACH, -EHOSTUNREACH: no way to that
 * host; -ECONNREFUSED: nobody has the port there; -EPERM: a firewall here
 */
AV_MUST_USE int av_net_icmp_error(const struct av_net_path *path);

/* --- counters -------------------------------------------------------------------- */

/* Of this process: packets that were dropped before a queue pair heard of them, and why. */
enum av_net_count {
	AV_NET_IN,
	AV_NET_OUT,
	AV_NET_SHORT,	  /* no packet of RoCEv2 */
	AV_NET_BAD_CRC,	  /* its ICRC is wrong */
	AV_NET_MISROUTED, /* passed on to the process that owns the queue pair */
	AV_NET_NOBODY,	  /* no queue pair of this user has that number */
	AV_NET_COUNTS
};
uint64_t av_net_counted(enum av_net_count what);

#endif
