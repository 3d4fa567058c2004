/* SPDX-License-Identifier: MIT */
/* What a queue pair knows on the wire: its path, the window to the peer's host, its credits. */
#ifndef AV_TRANSPORT_WIRE_QP_H
#define AV_TRANSPORT_WIRE_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/table.h"
#include "memory/odp.h"
#include "net/net.h"
#include "queue/qp.h"
#include "transport/rules.h"
#include "wire/packet.h"

/*
 * End-to-end flow control of reliable connections: a responder tells how many receive requests it
 * has, and its requester sends no more messages than will find one. Without any, the requester
 * sends the first packet of one message, and waits for its answer: it brings a new number, or is an
 * RNR NAK. Source: IBTA volume 1, 9.7.7.2.
 */

struct av_wire;

/*
 * The responder's syndrome of an acknowledgement. Who shares its receive queue does not count.
 * Context: @resp is held
 */
uint8_t av_wire_credits(const struct av_qp_ref *end);

/*
 * The requester's half. Context: @exec is held.
 *
 * av_wire_credit(): as many packets of the request at @next have credit, and are not sent yet.
 * @takes: it takes a receive request. @first: PSN of its first packet
 */
int32_t av_wire_credit(const struct av_wire *w, bool takes, uint32_t first);

/*
 * The peer has told its number, by that code, after it had executed at least all that has been
 * acknowledged.
 */
void av_wire_credited(struct av_wire *w, uint8_t code);

/* The way of a connection on the wire to its peer, from the attributes of its address. */

struct av_wire_route {
	struct av_net_path path;  /* its source address is open */
	struct av_window *window; /* to the peer's host; NULL: there is no way */
};

/*
 * Make the way that @ah says, for a queue pair that is not of datagrams.
 * Context: no execution right held. Return: 0, or an errno of ibv_modify_qp(): ENOMEM, EADDRINUSE,
 * EADDRNOTAVAIL; then there is no way
 */
AV_MUST_USE int av_wire_route_open(const struct av_qp_ref *end, const struct ibv_ah_attr *ah,
				   struct av_wire_route *route);

/* End it, if there is one. Context: no execution right held */
void av_wire_route_close(struct av_wire_route *route);

/*
 * How many bytes may be on their way to another host. The queue pairs of this process that send
 * there share one window, since their packets meet in one receive buffer. It begins with what a
 * buffer of Linux's default size takes. Each acknowledgement widens it: receivers empty their
 * buffers meanwhile. Lost packets halve it, and so does a notification of congestion. Nobody has to
 * be woken when it changes: a queue pair may always send a packet, if not at once, and its
 * acknowledgement lets it go on.
 */

struct av_window;

/*
 * The window to that GID, for one more queue pair. Context: takes a lock of its own, allocates.
 * Return: NULL: no memory. av_window_leave() gives it back; NULL is allowed.
 */
struct av_window *av_window_join(const uint8_t dst[16]);
void av_window_leave(struct av_window *w);

/*
 * A queue pair begins to send there, or has no packets under way any more. The caller remembers
 * which, and says it once. Context: any thread.
 */
void av_window_active(struct av_window *w, bool active);

/* Bytes that a queue pair may have under way. Context: any thread */
uint32_t av_window_share(const struct av_window *w);

/*
 * While losses keep the window narrow; in a wide one there is no limit, and no rest. Context: any
 * thread
 *
 * av_window_answer(): bytes that one READ may ask for. Half of a share, so that the answer to the
 * next one shows what is missing of this one.
 *
 * av_window_rest(): nanoseconds for which a queue pair sends nothing when it has been answered. A
 * share that is less than a packet is one packet in a longer time: @answer_ns, which the answer
 * took, for each share of it; but no longer than a long queue is.
 */
uint32_t av_window_answer(const struct av_window *w);
uint64_t av_window_rest(const struct av_window *w, uint32_t mtu, uint64_t answer_ns);

/* An acknowledgement has come by now; packets have been lost. Context: any thread */
void av_window_acknowledged(struct av_window *w, uint32_t mtu, uint64_t now_ns);
void av_window_lost(struct av_window *w);

/* Has a packet of any queue pair been acknowledged since then? Context: any thread */
bool av_window_heard(const struct av_window *w, uint64_t since_ns);

/* The state of a queue pair on the wire, private to its process, and what its files share. */

/* An answer that is kept for a duplicate of its request. */
struct av_wire_answer {
	uint32_t psn;
	bool there, atomic;
	uint64_t original;
};

/* A READ that is being answered. All zero: none is. */
struct av_wire_read {
	struct av_packet request;
	uint32_t next, packets; /* of the answer; the same: it has been given */
	struct av_odp_message source;
	bool dropped; /* a request that came meanwhile */
};

/* An open address of a datagram queue pair receives for a group. */
struct av_wire_joined {
	uint8_t address[16], group[16];
};

struct av_wire {
	uint32_t qpn;		/* own */
	uint8_t (*address)[16]; /* open ones (GIDs) of a datagram queue pair */
	uint32_t addresses;
	int unopened; /* why another one of a datagram queue pair could not be opened, -errno */
	struct av_wire_joined *joined; /* its groups; guarded by a mutex: wire_arrive.c */
	uint32_t joined_count;

	struct av_wire_route route; /* to the peer; guarded by @exec and @resp */
	enum av_service service;
	uint32_t mtu; /* bytes of payload */

	/*
	 * Requester; guarded by @exec. Requests from @sq_next on have been sent, up to @next; of
	 * that one, @begun packets. PSNs from @acked on have not been acknowledged. Those before
	 * @sent have been sent once. While they are being repeated, @next, and @next_psn of the
	 * queue pair, are behind @top and @sent.
	 */
	uint32_t next, begun;
	uint32_t top; /* one past the last request that was ever begun */
	uint32_t acked, sent;
	uint32_t *first; /* PSN of the first packet, by request & sq_mask */
	uint8_t *part;	 /* and packets of each part that a READ is asked for in, but the last */
	/*
	 * Messages that take receive requests of the peer, free-running: those acknowledged, those
	 * before @next, and how many of these it has requests for.
	 */
	uint32_t taken, takers, limit;
	/*
	 * How long the last answer took, and until when nothing is sent if nothing is under way (0:
	 * it may be sent at once). av_window_rest()
	 */
	uint64_t answer_ns, rest_until_ns;
	bool waits;    /* for the RNR timer: nothing is sent meanwhile */
	bool repeated; /* since the last progress or timeout, because of a gap */
	bool asked;    /* what keeps answers away: av_net_icmp_watch() */
	bool active;   /* it has a share of @window */
	int obstacle;  /* since the last progress: packets were refused, or not used, -errno */
	int unheard;   /* why there was no answer, -errno; 0: nobody says */
	struct av_odp_message source; /* of the request that is being sent */
	struct av_odp_message result; /* of the request whose answer is coming */

	/* Responder; guarded by @resp. */
	struct av_qp_shared *peer; /* stands for the requester: av_execute_piece() */
	enum av_operation message; /* of the message that is coming, if */
	bool coming;		   /* its First has come, its Last has not */
	uint64_t come;		   /* bytes of it so far */
	uint64_t announced;	   /* an RDMA WRITE's length */
	uint64_t addr;		   /* and its address */
	uint32_t rkey;
	struct av_odp_message target;
	struct av_wire_read read;
	bool told; /* a sequence NAK or RNR NAK has been sent for the packet that is expected */
	_Atomic bool owes; /* an acknowledgement, at the end of the batch; read without a right */
	uint64_t notified_ns; /* when the peer was told of congestion last */
	uint32_t kept_next;
	struct av_wire_answer *kept; /* as many as max_dest_rd_atomic at its most */
	uint32_t kept_count;
};

/* The state of own queue pair @index. NULL: it is not on the wire. */
static inline struct av_wire *av_wire_at(const struct av_seg *seg, uint32_t index)
{
	const struct av_table *table = atomic_load_explicit(&seg->wires, memory_order_acquire);

	return table ? av_table_get(table, index) : NULL;
}

/*
 * The state of an own queue pair with room for @addresses; NULL: no memory. av_wire_keep() makes it
 * known. Return: 0 or ENOMEM. av_wire_delete() closes its addresses.
 */
struct av_wire *av_wire_new(const struct av_qp_ref *end, uint32_t addresses);
AV_MUST_USE int av_wire_keep(const struct av_qp_ref *end, struct av_wire *w);

/*
 * The same of a connection, its way open. Context: as av_wire_open(). Return: 0 or an errno of
 * ibv_modify_qp()
 */
AV_MUST_USE int av_wire_make(const struct av_qp_ref *end, const struct ibv_qp_attr *attr,
			     struct av_wire **made);
void av_wire_delete(struct av_wire *w);

/*
 * Have the open addresses of a datagram queue pair receive for all groups that it is attached to;
 * for none of them. Context: as av_wire_open()
 */
void av_wire_join_all(struct av_wire *w);
void av_wire_leave_all(struct av_wire *w);

/* Has a completion found its CQ full? What is left in the queue is to be flushed then. */
static inline bool av_wire_has_failed(const struct av_qp_ref *end)
{
	return atomic_load_explicit(&end->qp->state, memory_order_relaxed) == IBV_QPS_ERR;
}

/*
 * A packet that came. @struck: rules of faults have been asked about it. Context: within the
 * receiver; no right held
 */
void av_wire_handle(const struct av_net_packet *packet, bool struck);

/*
 * A packet to a queue pair of this process, from its peer's address. Context: no right held.
 */
void av_wire_requested(const struct av_qp_ref *end, const struct av_net_packet *packet);
void av_wire_answered(const struct av_qp_ref *end, const struct av_net_packet *packet);

/* To net/net.h. */
extern const struct av_net_receiver av_wire_receiver;

/*
 * Send the acknowledgement that is owed; and the same unless somebody has the responder for longer
 * than AV_STUCK_NS: then the end of the batch sees to it. Context: @exec may be held
 */
void av_wire_acknowledge(const struct av_qp_ref *end);
void av_wire_acknowledge_soon(const struct av_qp_ref *end);

/* A packet with that number in it was damaged. Context: within the receiver; no right held */
void av_wire_damaged(uint32_t qpn);

/*
 * A packet has met congestion: tell the peer. The peer has told of it: send less. Context: no right
 * held
 */
void av_wire_marked(const struct av_qp_ref *end, const struct av_net_packet *packet);
void av_wire_notified(const struct av_qp_ref *end, const struct av_net_packet *packet);

/* Is the packet from that queue pair's peer? Context: one of its rights is held */
bool av_wire_is_peer(const struct av_qp_ref *end, const struct av_net_packet *packet);

/* Have an acknowledgement sent at the end of the batch. Context: @resp is held */
void av_wire_owe(const struct av_qp_ref *end, struct av_wire *w);

/*
 * The requester's half, for answers. Context: @exec is held.
 *
 * av_wire_fail_head(): the request at the head fails, and the queue pair with it.
 * av_wire_rewind(): send everything from PSN @psn on once more. av_wire_progress(): the peer has
 * acknowledged something, so that retries and timers start anew. An @acknowledgement widens the
 * window, too; the middle of a long answer is none.
 */
void av_wire_fail_head(const struct av_qp_ref *end, enum av_fault fault);
void av_wire_rewind(const struct av_qp_ref *end, struct av_wire *w, uint32_t psn);
void av_wire_progress(const struct av_qp_ref *end, struct av_wire *w, bool acknowledgement);

/* Is nothing under way? Then no timer runs. Context: @exec is held */
void av_wire_settle(const struct av_qp_ref *end, struct av_wire *w);

/* Packets of a request, those of its answer for a READ. */
uint32_t av_wire_packets_of(const struct av_wire *w, const struct av_sq_wqe *wqe);

#endif
