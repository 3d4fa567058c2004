/* SPDX-License-Identifier: MIT */
/*
 * The state of a queue pair whose peer is on another host: its route, the window to the peer's
 * host, its credits, and the functions that the files of the wire share.
 */
#pragma once

#include "base/table.h"
#include "net/net.h"
#include "transport/outcome.h"

/*
 * End-to-end flow control of reliable connections. The responder reports how many receive requests
 * it has. Its requester sends no more messages than these. If there is none, it sends the first
 * packet of one message, and waits for an acknowledgement with a new number, or an RNR NAK.
 * Source: IBTA volume 1, 9.7.7.2.
 */

/*
 * The syndrome of the responder's next acknowledgement, without a number if the queue pair has a
 * shared receive queue or is of XRC. Context: @resp_lock is held.
 */
uint8_t av_wire_credits(const struct av_qp_ref *end);

/* The route of a connection to its peer, from the attributes of the peer's address. */

struct av_wire_route {
	struct av_net_path path;  /* its source address is open */
	struct av_window *window; /* to the peer's host; NULL: the route is not open */
};

/*
 * Open the route of @end to address @ah: open its source address, and join the window.
 * Context: no queue pair lock held. Return: 0, or an errno of ibv_modify_qp(), with the route not
 * open: ENOMEM, EADDRINUSE, EADDRNOTAVAIL
 */
AV_MUST_USE int av_wire_route_open(const struct av_qp_ref *end, const struct ibv_ah_attr *ah,
				   struct av_wire_route *route);

/* Close a route, if it is open. Context: no queue pair lock held. */
void av_wire_route_close(struct av_wire_route *route);

/*
 * How many bytes may be outstanding to another host. All queue pairs of this process that send to
 * that host share one window, since their packets arrive in one receive buffer. The window begins
 * with what a buffer of Linux's default size takes. Each acknowledgement widens it. Lost packets
 * and congestion notifications halve it. No queue pair has to be woken when it changes: each may
 * always send one packet, at once or after a rest. When that packet is acknowledged, it sends more.
 * Any thread may call these functions.
 */

struct av_window;

/*
 * Join the window to GID @dst as one more queue pair; NULL: no memory. Takes a mutex of its own;
 * allocates. av_window_leave() releases it; it ignores NULL.
 */
struct av_window *av_window_join(const uint8_t dst[16]);
void av_window_leave(struct av_window *w);

/* A queue pair starts to send, or has no packet outstanding any more. Report each once. */
void av_window_active(struct av_window *w, bool active);

/* Has no more than one queue pair packets outstanding? */
bool av_window_is_alone(const struct av_window *w);

/* Bytes that one queue pair may have outstanding. */
uint32_t av_window_share(const struct av_window *w);

/*
 * Limits that hold only in a window that losses have narrowed.
 *
 * av_window_answer(): bytes that one READ request may ask for: half of a share. So the answer to
 * the next request shows what is missing of this one. Wide: UINT32_MAX.
 *
 * av_window_rest(): nanoseconds for which a queue pair sends nothing after an answer. If a share is
 * less than a packet, it sends whole packets, but less often: it rests longer if the share is
 * smaller, or if the answer took longer (@answer_ns), up to a maximum. Wide: 0.
 */
uint32_t av_window_answer(const struct av_window *w);
uint64_t av_window_rest(const struct av_window *w, uint32_t mtu, uint64_t answer_ns);

/* An acknowledgement arrived at @now_ns; packets were lost. */
void av_window_acknowledged(struct av_window *w, uint32_t mtu, uint64_t now_ns);
void av_window_lost(struct av_window *w);

/* Has a packet of any queue pair been acknowledged since @since_ns? */
bool av_window_heard(const struct av_window *w, uint64_t since_ns);

/* The state of a queue pair on the wire, private to its process. */

/* An answer that the responder stores for a duplicate of its request. */
struct av_wire_answer {
	uint32_t psn;
	bool there, atomic;
	uint64_t original;
};

/* A READ that the responder is answering. All zero: none. */
struct av_wire_read {
	struct av_packet request;
	uint32_t next, packets; /* packets of the answer: next to send, and all; equal: the answer
				   is complete */
	struct av_odp_message source;
	bool dropped; /* a request that arrived meanwhile was dropped */
};

/* A message that is arriving. */
struct av_wire_coming {
	enum av_operation operation;
	bool begun;	    /* its first packet has arrived, its last has not */
	uint64_t received;  /* bytes of it so far */
	uint64_t announced; /* length of an RDMA WRITE */
	uint64_t addr;	    /* and its address */
	uint32_t rkey;
};

/* A request that has been begun. */
struct av_wire_begun {
	uint32_t first; /* PSN of its first packet */
	uint32_t part;	/* packets of a READ's parts but the last */
};

/* A datagram queue pair receives for @group at @address, which it has opened. */
struct av_wire_joined {
	uint8_t address[16], group[16];
};

struct av_wire {
	uint32_t qpn;		/* its own number */
	uint8_t (*address)[16]; /* a datagram queue pair's open addresses (GIDs) */
	uint32_t addresses;
	int unopened; /* why a datagram queue pair could not open another address, -errno */
	struct av_wire_joined *joined; /* its groups; guarded by av_qp.changes_mutex */
	uint32_t joined_count;

	struct av_wire_route route; /* to the peer; guarded by @req_lock and @resp_lock */
	enum av_service service;
	uint32_t mtu; /* bytes of payload */

	/*
	 * Requester; guarded by @req_lock. The requester has sent all packets of the requests from
	 * @sq_next up to @next, and @begun packets of request @next. PSNs from @acked on are not
	 * acknowledged. PSNs before @sent have been sent at least once. During a retransmission,
	 * @next is behind @begun_end, and the queue pair's @next_psn is behind @sent.
	 */
	uint32_t next, begun;
	uint32_t begun_end; /* one past the last request that was ever begun */
	uint32_t seen;	    /* @sq_tail when last looked at */
	uint32_t acked, sent;
	struct av_wire_begun *request; /* av_wire_begun_at() */
	/*
	 * Free-running counts of messages that take a receive request of the peer: those
	 * acknowledged, those before request @next, and those for which the peer has reported a
	 * receive request.
	 */
	uint32_t credits_acked, credits_used, credit_limit;
	/*
	 * How long the last answer took, and since when the next one is awaited. Until when the
	 * requester sends nothing while no packet is outstanding; 0: no rest. av_window_rest()
	 */
	uint64_t answer_ns, since_ns, rest_until_ns;
	bool waits;	    /* for the RNR timer; sends nothing meanwhile */
	bool repeated;	    /* retransmitted because of a gap, since the last progress or timeout */
	bool icmp_probed;   /* asks ICMP what prevents answers: av_net_icmp_probe() */
	bool active;	    /* counted in the window: av_window_active() */
	bool reads_carried; /* acknowledgements, and fillers; constant from RTR on */
	bool understood;    /* the peer's last answer says that it does, too */
	int obstacle; /* -errno since the last progress: why packets were refused or ignored */
	int silence;  /* why there was no answer, -errno; 0: not known */
	struct av_odp_message source; /* of the request that is being sent */
	struct av_odp_message result; /* of the request whose answer is arriving */

	/* Responder; guarded by @resp_lock. */
	struct av_wire_coming coming;
	struct av_odp_message target;
	struct av_wire_read read;
	bool nak_sent;	/* a sequence NAK or RNR NAK has been sent for the expected packet */
	bool not_ready; /* that packet was refused for want of a receive request */
	_Atomic bool ack_pending; /* acknowledgement due; read without @resp_lock */
	uint64_t due_ns;    /* it waits that long for a message to carry it; 0: it does not wait */
	int8_t pays;	    /* messages in a row, answered in time; < 0: one has waited in vain */
	_Atomic bool spoke; /* the program has posted since the last message; no lock to read */
	_Atomic bool carries_acks; /* the peer reads them, too; read without @resp_lock */
	uint64_t notified_ns;	   /* when the last congestion notification was sent */
	uint32_t answered;	   /* free-running */
	struct av_wire_answer kept[AV_MAX_RD_ATOM];
};

/* Bytes of a packet's payload. To who does not read what is behind it, that is the end of it. */
static inline uint32_t av_wire_payload_bytes(const struct av_wire *w, const struct av_packet *p)
{
	return p->payload_bytes + (w->reads_carried ? 0 : av_packet_behind(p));
}

/* Context: @req_lock is held */
static inline struct av_wire_begun *av_wire_begun_at(const struct av_qp_ref *end,
						     const struct av_wire *w, uint32_t request)
{
	return &w->request[request & end->qp->sq_mask];
}

/* The state of own queue pair @index; NULL: it has none on the wire. */
static inline struct av_wire *av_wire_at(const struct av_seg *seg, uint32_t index)
{
	const struct av_table *table = atomic_load_explicit(&seg->wires, memory_order_acquire);

	return table ? av_table_get(table, index) : NULL;
}

/* Has the queue pair failed, as when a CQ was full? Then the rest of the queue is to be flushed. */
static inline bool av_wire_has_failed(const struct av_qp_ref *end)
{
	return atomic_load_explicit(&end->qp->state, memory_order_relaxed) == IBV_QPS_ERR;
}

/*
 * What waits to be sent: acknowledgements, and small messages of a reliable connection that has
 * other messages outstanding. These messages gather in the send queue, so that one system call
 * sends many. The queue pair sends them when packets that arrived together have been handled, with
 * the next acknowledgement, when there are many, when the queue is full, or at @gather_ns. One list
 * has the queue pairs, in the order in which they began to wait.
 *
 * av_wire_gathers(): were messages posted since the last call, and may they wait for more? A call
 * without new messages, as by a poll, ends the wait. Context: @req_lock is held; a request can be
 * sent.
 * av_gather_end(): send what has gathered. Context: no lock held
 * av_wire_let_leave(): @settled of struct av_net_receiver
 */
bool av_wire_gathers(const struct av_qp_ref *end, struct av_wire *w);
void av_gather_end(const struct av_qp_ref *end);
uint64_t av_wire_let_leave(uint64_t now_ns);

#define AV_GATHER_OVER 1u /* in @gather_ns: the next holder of @req_lock sends all of it */

/* Have the next holder of @req_lock send what has gathered. Return: has anything? Any thread */
static inline bool av_gather_is_over(struct av_qp_shared *qp)
{
	bool gathers = atomic_load(&qp->gather_ns) != 0;

	if (gathers)
		atomic_store(&qp->gather_ns, AV_GATHER_OVER);
	return gathers;
}

/*
 * Packets that arrived. Context of these functions: the thread that receives packets (struct
 * av_net_receiver); no queue pair lock held.
 * @packet: @count of them, to one queue pair
 * @struck: the fault rules have already decided on them
 */
void av_wire_handle(const struct av_net_packet *packet, unsigned int count, bool struck);

/*
 * Request packets, or answer packets, one after the other, arrived for an own queue pair. Packets
 * of others than its peer are ignored.
 * @carried: the acknowledgement that the one request packet carries; NULL: they are answers
 */
void av_wire_requested(const struct av_qp_ref *end, const struct av_net_packet *packet,
		       unsigned int count);
void av_wire_answered(const struct av_qp_ref *end, const struct av_net_packet *packet,
		      unsigned int count, const struct av_packet *carried);

/* What net/net.h calls when packets arrive. */
extern const struct av_net_receiver av_wire_receiver;

/*
 * Send the pending acknowledgement, if there is one, and it is due: av_wire_due(). Waits
 * AV_STUCK_NS at most for @resp_lock; on a timeout, the acknowledgement stays pending. Context:
 * @resp_lock is not held, @req_lock may be. Return: when it is due, in ns of av_now_ns();
 * UINT64_MAX: none is pending
 */
uint64_t av_wire_acknowledge(const struct av_qp_ref *end, uint64_t now_ns);

/*
 * When the pending acknowledgement is due; 0: by @now_ns, or always by UINT64_MAX. If it has waited
 * until @now_ns in vain for the program's answer, the next ones do not wait. Context: @resp_lock is
 * held.
 */
uint64_t av_wire_due(struct av_wire *w, uint64_t now_ns);

/*
 * A damaged packet for that number was dropped: count it, if this process owns such a queue pair.
 * Context: the thread that receives packets; no queue pair lock held.
 */
void av_wire_damaged(uint32_t qpn);

/* Is the packet from its peer, and meant for it? Context: one of its locks is held. */
bool av_wire_is_peer(const struct av_qp_ref *end, const struct av_net_packet *packet);

/*
 * Make an acknowledgement pending: it is sent at the end of the batch, or at @due_ns. Context:
 * @resp_lock is held; the thread that receives packets, which sends all of them when too many queue
 * pairs have one (av_wire_is_owing()).
 */
#define AV_WIRE_OWING 128u
void av_wire_owe(const struct av_qp_ref *end, struct av_wire *w, uint64_t due_ns);
bool av_wire_is_owing(void);

/*
 * What answers do to the requester. Context: @req_lock is held.
 *
 * av_wire_done(): the request at the head has succeeded: complete it, and count it.
 * av_wire_fail_head(): fail the request at the head, and the queue pair with it.
 * av_wire_rewind(): retransmit everything from @psn on.
 * av_wire_progress(): the peer answered; restart retries and timers. @acknowledgement: also widen
 * the window. A packet in the middle of a long answer does not.
 */
void av_wire_done(const struct av_qp_ref *end, struct av_wire *w, const struct av_sq_wqe *wqe);
void av_wire_fail_head(const struct av_qp_ref *end, enum av_fault fault);
void av_wire_rewind(const struct av_qp_ref *end, struct av_wire *w, uint32_t psn);
void av_wire_progress(const struct av_qp_ref *end, struct av_wire *w, bool acknowledgement);

/* If no packet is outstanding, stop the timer, and free the window's share. @req_lock is held. */
void av_wire_settle(const struct av_qp_ref *end, struct av_wire *w);

/* PSNs that a request uses: its packets; of a READ, the packets of its answer. */
uint32_t av_wire_packets_of(const struct av_wire *w, const struct av_sq_wqe *wqe);
