/* SPDX-License-Identifier: MIT */
/* How a request is executed: its operation, receive request, copy, and effects; and datagrams. */
#pragma once

#include <anyverbs/tunneled_atomic.h>

#include "transport/outcome.h"

/* === receive ===================================================================== */

/*
 * Payload that arrives with a completion: in its CQ entry, in the receive request's slot, or in
 * bounce buffers. The thread that takes the completion copies the payload to the receive buffers.
 */

/* All that this thread needs for the copy, read from shared memory. */
struct av_placement {
	struct av_cqe cqe;
	uint32_t pd;
	uint32_t count;
	struct ibv_sge sge[AV_MAX_SGE];
	uint8_t payload[AV_MAX_INLINE_RECV]; /* from the request's slot */
};

/*
 * Free the slot of the receive request that @cqe completes. The queue still exists: its completions
 * are purged before it is destroyed. Context: poll_lock is held.
 * @place: out, the entry, its payload, and the receive buffers; NULL: the entry has no payload
 */
void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place);

/*
 * Copy the payload in @place to its buffers, and release its bounce buffers.
 * Context: a thread of the owner, no lock held; waits for pages, and while a key is being changed.
 * Return: false: the receive buffers can no longer be used
 */
AV_MUST_USE bool av_place(struct av_seg *seg, struct av_placement *place);

/*
 * The entry of a receive found no room in its CQ. Copy its payload as far as this process reaches
 * the receive buffers, and release its bounce buffers and the receive request's slot.
 * Context: any process; the queue pair lock under which the entry was made is held.
 */
void av_place_lost(struct av_seg *seg, const struct av_cqe *cqe);

/*
 * The receiving half of a message: its receive request, how its bytes travel, its completion.
 * Context of these functions: the responder's @resp_lock is held.
 */

struct av_coop_source;

/*
 * A SEND up to this size goes through bounce buffers if this process does not map the receiver's
 * memory. A longer one does only if the kernel refuses to copy it. The receiver's poll copies the
 * bytes to their buffers: docs/ARCHITECTURE.md.
 */
#define AV_BOUNCE_LIMIT 16384u

struct av_message {
	const struct av_receiver *to;
	uint32_t invalidate; /* rkey that the message invalidates before it completes; 0: none */
	uint64_t bytes;
	uint64_t now_ns; /* coarse clock */
	/* The source, if this process posted it as one keyed element; NULL: pollers cannot help. */
	const struct av_coop_source *only;
	struct av_odp_message *message; /* in fragments: page faults of its buffers so far */
	struct av_cq_bell *later;	/* out: its event, for av_cq_ring(); NULL: sent at once */
	struct av_cqe cqe; /* in: what the message says of itself; the rest is 0, but for @data */
};

/*
 * Take the receive request that the message will use; NULL: receiver not ready.
 *
 * If a connected receiver has no request, marks its queue, so that its next post resumes the
 * requester, and tries again for 2 us. After success, the caller calls exactly one of
 * av_receive_message(), which completes the request unless its result says otherwise,
 * av_receive_error() and av_receive_cancel().
 */
const struct av_rq_wqe *av_receive_take(const struct av_receiver *to);

/* Put the request back into its queue, after a fault that is not the receiver's. */
void av_receive_cancel(const struct av_receiver *to);

/*
 * Copy the bytes @from of a SEND to @request of av_receive_take(), and complete it.
 * Return: AV_FAULT_NONE: completed. AV_FAULT_RECV_CQ: the CQ has overrun, and the completion is
 * lost. With any other fault, the request is not completed: AV_FAULT_RECV_SHORT,
 * AV_FAULT_RECV_PROT, AV_FAULT_LOC_PROT (a sender's buffer), AV_FAULT_BUSY (a key is being
 * changed), AV_FAULT_INVALIDATE (the key cannot be invalidated), AV_FAULT_FORBIDDEN (this process
 * may not access the memory, or no bounce buffer is free)
 */
AV_MUST_USE enum av_fault av_receive_message(struct av_message *msg, const struct av_spans *from,
					     const struct av_rq_wqe *request);

/* Complete the receive request that is taken with error @status; else the next one in the queue. */
void av_receive_error(const struct av_receiver *to, enum ibv_wc_status status);

/*
 * Flush the receive request of a message in fragments that will not be finished, if one is taken.
 */
void av_receive_abandon(const struct av_qp_ref *rsp);

/*
 * Complete all receive requests as flushed, but leave those of a shared queue to other queue pairs.
 */
void av_receive_flush(const struct av_qp_ref *rsp);

/* --- XRC: a request names the shared receive queue. IBTA volume 1, annex A14 -------- */

/* A shared receive queue in use. The pin names the SRQ's number. av_xrc_retire() waits for it. */
struct av_xrc_use {
	struct av_seg *seg; /* NULL: none in use */
	struct av_pin *pin;
};

/*
 * Find the receive queue that a request names by SRQ number. The SRQ must belong to the XRC domain
 * of the XRC_RECV queue pair @rsp. @use: out; the caller passes it to av_xrc_end(), whatever the
 * result. @to: out, if found. Context: the responder's @resp_lock is held; does not wait. Return:
 * AV_FAULT_NONE; AV_FAULT_REM_OP_DENIED: no such number, or it is of another domain or of a dead
 * process; AV_FAULT_BUSY: no pin is free, try again
 */
enum av_fault av_xrc_begin(const struct av_qp_ref *rsp, uint32_t srqn, struct av_xrc_use *use,
			   struct av_receiver *to);
void av_xrc_end(struct av_xrc_use *use);

/*
 * Unpublish an own queue's SRQ number, and wait until no request uses the queue.
 * Context: no lock held; waits as long as a copy takes.
 */
void av_xrc_retire(struct av_seg *seg, struct av_rq_shared *rq);

/*
 * What remains to do for a request after its completion: wake the receiver's process, or send the
 * datagram. An acknowledgement precedes an answer: a woken receiver may take the core of the thread
 * that woke it, answer at once, and have that answer completed. So the requester's completion is
 * appended before the receiver is woken. Members of a multicast group are woken at once, since
 * there may be any number of them.
 */

struct av_net_burst;

/* All zero: nothing remains. */
struct av_after {
	struct av_seg *seg; /* of the CQ whose event this is */
	struct av_cq_bell bell;
	struct av_xrc_use srq;	    /* holds @seg; else the cached destination does */
	struct av_net_burst *burst; /* NULL: no packet is to be sent */
};

/*
 * Do what remains, and clear the SRQ use. Makes system calls. Context: the requester's @req_lock
 * is held. @seg stays mapped, by @srq or by the requester's cached destination.
 */
void av_after_do(struct av_after *after);

/* === coop copy =================================================================== */

/*
 * Both sides copy a large message: the sender, and threads of the receiver whose poll of the CQ
 * finds nothing. No poller has to help.
 *
 * The sender opens its message in the receiver's CQ (struct av_coop_copy, queue/cq.h), one at a
 * time, and copies chunks from the front. Pollers of that CQ claim chunks from the back. While a
 * poller copies its chunk, it holds the lock @chunk, and pins of both keys, which it looked up
 * itself. When all chunks are claimed, the sender takes @chunk. If a poller failed to copy its
 * chunk, or died during the copy, the sender copies the whole message again, without help.
 */

/*
 * Measured (docs/notes/inside.md). Shorter messages stay in one core's cache, and gain little.
 * Smaller chunks cost more claims. Larger chunks make the sender wait longer.
 */
#define AV_COOP_MIN   (256u << 10)
#define AV_COOP_CHUNK (64u << 10)

/* At the end of a message, the sender copies at least this many bytes itself, and last. */
#define AV_COOP_REST 4096u

/* The source of a message that pollers can help to copy: one keyed element, sent whole. */
struct av_coop_source {
	const struct av_qp_ref *req; /* the sender, a queue pair of this process */
	struct ibv_sge sge;	     /* at least AV_COOP_MIN bytes */
};

enum av_coop_result {
	AV_COOP_COPIED,
	AV_COOP_NOT,   /* some bytes are missing; the others may have been copied */
	AV_COOP_STUCK, /* the same, and a poller may still be copying after AV_PEER_TIMEOUT_NS */
};

/*
 * Copy a message, its end last, with help of the pollers of the receiver @rsp, in another process.
 * @recv: the one element of its receive request. @to, @from: the addresses of the bytes in this
 * process. Context: @rsp's @resp_lock is held, and pins of both keys. Waits for pages, and
 * AV_PEER_TIMEOUT_NS at most for a poller that copies a chunk.
 */
AV_MUST_USE enum av_coop_result av_coop_copy(const struct av_coop_source *source,
					     const struct av_qp_ref *rsp,
					     const struct ibv_sge *recv, uint8_t *to,
					     const uint8_t *from);

/*
 * The sender died while it held @rsp's @resp_lock, which the caller has taken over: close its
 * message to pollers. Waits for a poller that copies a chunk; if @rsp is another process's,
 * AV_PEER_TIMEOUT_NS at most, and then the message stays open.
 */
void av_coop_abandon(const struct av_qp_ref *rsp);

/*
 * A poll of an own CQ found nothing, and a message is open: copy a chunk, if no thread has claimed
 * all of them. Context: a thread of the owner, no lock held; waits for pages.
 */
void av_coop_help(struct av_seg *seg, struct av_cq_shared *cq);

/* A part of av_coop_help() for tests: copy one chunk, if @cq's message is for @rsp, @req's peer. */
void av_coop_help_with(const struct av_qp_ref *rsp, const struct av_qp_ref *req,
		       struct av_cq_shared *cq);

/* === operations ================================================================== */

/*
 * Does a strict device raise this event of an own queue pair later? Then this has scheduled it, and
 * the caller raises nothing. Context: as av_event_raise().
 */
AV_COLD bool av_strict_puts_off(const struct av_qp_ref *end, uint32_t qpn,
				enum ibv_event_type event);

/*
 * Raise @event at queue pair @end, of any process, whose number was @qpn when the event happened.
 * Context: no lock held; makes system calls.
 */
static inline void av_event_raise(const struct av_qp_ref *end, uint32_t qpn,
				  enum ibv_event_type event)
{
	struct av_doorbell_record record = {
		.event = event,
		.kind = AV_SLAB_QP,
		.index = end->qp->index,
		.id = qpn,
	};

	if (!av_strict_puts_off(end, qpn, event))
		(void)av_doorbell_ring(end->seg, AV_DOORBELL_ASYNC, &record);
}

/*
 * Raise IBV_EVENT_QP_LAST_WQE_REACHED, if the receives of @end on a shared queue have ended.
 * Context: @resp_lock is not held; makes system calls.
 */
static inline void av_event_last_wqe(const struct av_qp_ref *end)
{
	if (atomic_exchange(&end->qp->last_wqe, 0))
		av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* Events that an executor raises after it has released the responder's right. */
struct av_events {
	int at[2]; /* enum ibv_event_type */
	unsigned int count;
};

/* Raise them at queue pair @qpn. Context: as av_event_raise(). */
static inline void av_events_raise(const struct av_qp_ref *end, uint32_t qpn,
				   const struct av_events *events)
{
	for (unsigned int i = 0; i < events->count; i++)
		av_event_raise(end, qpn, (enum ibv_event_type)events->at[i]);
}

/* A request under execution: its two sides, the memory of each, and its outcome so far. */

struct av_work;

/*
 * The operation of an opcode.
 * Context: the requester's @req_lock is held, and the responder's @resp_lock unless the
 * opcode is local. No lock and no pin is held. May wait for pages of either program. The caller
 * ends the pins of @w->local, and @w->pin. Return: AV_FAULT_NONE: done; or the request has to wait,
 * and @w->result.wait_reason is set.
 * - AV_FAULT_BUSY: a key is being changed. The operation holds no receive request that it took. The
 * caller starts it again from the beginning.
 * - Any other fault: the caller applies its effects on both sides. A receive request that was taken
 * remains taken if the fault is the receiver's.
 */
typedef enum av_fault av_operation(struct av_work *w);

/*
 * A part of a message, which is executed fragment by fragment: that of packets which arrived one
 * after the other. @wqe has the operation and rkey of the message, and the address and length of
 * the fragment.
 */
struct av_fragment {
	const struct iovec *payload; /* the packets' payloads; or where to put the answer */
	uint32_t payloads;	     /* 1 to AV_MAX_SGE */
	uint64_t before;	     /* bytes of the message in earlier packets */
	uint64_t whole; /* first fragment: the length that the message announces; else 0 */
	struct av_odp_message *message; /* page faults of the responder's memory so far */
	bool more;			/* more fragments follow */
	bool again;   /* the requester repeats a request that was executed before */
	bool refused; /* so it was when it came last, for want of a receive request */
};

struct av_work {
	const struct av_qp_ref *req, *rsp;  /* both ends; with a packet, the responder twice */
	const struct av_fragment *fragment; /* of packets that brought it; NULL: none */
	const struct av_sq_wqe *wqe;	    /* in the own ring, or made from a packet */
	const struct av_wr_opcode *opcode;  /* the opcode's row */
	struct av_receiver to;		    /* of @rsp, or the SRQ of an XRC request */
	uint32_t pd;		/* protection domain that its keys are checked against */
	struct av_xrc_use srq;	/* held for an XRC request */
	struct av_spans local;	/* the requester's buffers, */
	struct av_pin *pin;	/* and the key of the responder's: released after the operation */
	struct av_after *after; /* as in av_execute(); NULL: nothing is deferred */
	bool in_vain;		/* the requester cannot store the responder's answer */
	struct av_outcome result;
	struct av_events events; /* to raise when the responder's lock is released */
	uint64_t now_ns;	 /* coarse clock, read once */
};

/* The destination of a WRITE, for av_work_remote(). */
#define AV_WRITE_TO(wqe)                                            \
	((struct av_mem_request){.access = IBV_ACCESS_REMOTE_WRITE, \
				 .payload = true,                   \
				 .addr = (wqe)->remote_addr,        \
				 .length = (wqe)->bytes})

/* Record that the request has to wait for @why. Return: false */
static inline bool av_work_wait(struct av_work *w, enum av_wait why)
{
	w->result.wait_reason = why;
	return false;
}

/*
 * Translate the requester's buffers. @fragment: of packets that have the bytes, or take the answer;
 * NULL: none. @access: 0 for sources, IBV_ACCESS_LOCAL_WRITE for destinations. Context: as
 * av_mem_get_list(). Return: AV_FAULT_NONE: pinned until av_mem_put_list(). Nothing is pinned:
 * AV_FAULT_BUSY, AV_FAULT_LOC_PROT, AV_FAULT_LOC_LEN (inline data exceeds a slot)
 */
AV_MUST_USE enum av_fault av_find_buffers(const struct av_qp_ref *req,
					  const struct av_fragment *fragment,
					  const struct av_sq_wqe *wqe, uint32_t access,
					  struct av_spans *to);

/* The same for a request that holds no responder's right: waits while a key is being changed. */
AV_MUST_USE enum av_fault av_request_buffers(const struct av_qp_ref *req,
					     const struct av_sq_wqe *wqe, uint32_t access,
					     struct av_spans *to);

/*
 * Translate the responder's memory that an rkey names, if its queue pair permits. @req: range,
 * access (the queue pair's flags must have it, too), @payload and @whole; the rest out. @operand:
 * bytes of an atomic's operand, to be aligned; 1: any alignment; 0: data, or a part of it. @remote:
 * out, one span; or none, if @req has no length. @w->pin pins its key. Context: as av_mem_get().
 * Return: AV_FAULT_NONE; or nothing is held: AV_FAULT_REM_NO_RD_ATOMIC, AV_FAULT_REM_OP_DENIED,
 * AV_FAULT_REM_MISALIGNED, AV_FAULT_BUSY, AV_FAULT_REM_ACCESS, or AV_FAULT_TUNNELED: the payload is
 * commands, not data
 */
AV_MUST_USE enum av_fault av_work_remote(struct av_work *w, struct av_mem_request *req,
					 uint64_t operand, struct av_spans *remote);

/*
 * Find @w->to, the receive queue that an XRC request names. Keys are checked against its domain.
 * Context, return: as av_xrc_begin(). The caller ends @w->srq.
 */
AV_MUST_USE enum av_fault av_work_find_srq(struct av_work *w);

/*
 * The responder died during the request, which waits for an answer that cannot arrive.
 * Return: AV_FAULT_NONE, as an operation that has to wait
 */
enum av_fault av_work_gone(struct av_work *w);

/*
 * The fault, as an operation's, of a request when a copy for it @copied so. If memory is gone
 * because its process is gone, the request has no answer at all.
 * @src, @dst: the faults for missing memory on that side
 */
enum av_fault av_work_moved(struct av_work *w, enum av_fault copied, enum av_fault src,
			    enum av_fault dst);

/*
 * Can the first packet of @from be read? A fault further on shows when the bytes are copied.
 * Context: as av_xfer_copy().
 */
AV_COLD AV_MUST_USE enum av_fault av_work_read_first(const struct av_work *w,
						     const struct av_spans *from);

/*
 * By opcode. Operations on the requester's own keys run without a responder, under @req_lock alone.
 *
 * FLUSH needs only a memory barrier: earlier requests have already written to the responder's
 * memory, and processor caches are coherent. No key grants persistence: a FLUSH that asks for it
 * fails the access check. ATOMIC WRITE copies its operand from the requester's memory first.
 * Source: IBTA volume 1, release 1.5.
 */
extern av_operation *const av_operations[AV_WR_OPCODES + 1];

av_operation av_op_write;

/* FETCH_AND_ADD or CMP_AND_SWP, whose write comes a while after its read (AV_ATOMIC_IN_STEPS). */
av_operation av_op_in_steps;

/*
 * Tunneled atomic operations: commands in the payload of an RDMA WRITE to a region of tunneled
 * atomics. include/anyverbs/tunneled_atomic.h has the encoding and its guarantees.
 */

/*
 * Execute the commands in the payload; without @apply, only check them. The payload is read once.
 * All commands are checked before the first is executed. The requester's buffers must be
 * translated; before the first command they are released and emptied. Context and return as an
 * operation's. AV_FAULT_REM_NO_COMMAND: the payload is no list of commands
 */
AV_MUST_USE enum av_fault av_op_tunneled(struct av_work *w, bool apply);

/* Number of commands in a payload of that length; 0: it cannot have that length. */
unsigned int av_tunnel_count(uint64_t bytes);

/* Decode a command; false: it is not valid. */
AV_MUST_USE bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *command,
				  struct av_atomic *atomic);

/* SEND, and RDMA WRITE with immediate data, take a receive request, and wait if there is none. */

/* SEND, with immediate data or a key to invalidate if the opcode has them. */
av_operation av_op_send;

/* Checks the rkey before it takes a receive request, so that a fault of the rkey takes none. */
av_operation av_op_write_imm;

/* === execute ===================================================================== */

/* Execute one send request, whose responder is on this host or which a packet brought. */

/*
 * Take @resp_lock of a queue pair, and complete or undo what a dead holder began. av_lock_release()
 * releases it. Waits without limit for threads of this process, and AV_PEER_TIMEOUT_NS at most for
 * a peer. Return: false: timed out on a peer's lock
 */
bool av_responder_acquire(const struct av_qp_ref *end);

/* The same, but waits AV_STUCK_NS at most, also for threads of this process. */
bool av_responder_acquire_soon(const struct av_qp_ref *end);

/*
 * Execute one request @wqe, in the ring of the requester @req, which is in a state that executes.
 * @rsp: .qp is NULL if there is none. @after: all zero; out: for av_after_do(), after the caller
 * has completed the request; NULL: do that at once. Advances the PSNs of both on success. On
 * return, the responder has its receive completion, error state and events. The caller completes
 * the request.
 * Context: @req's @req_lock is held. Takes the responder's @resp_lock, and releases it. Waits for
 * pages of either program, with no other lock held.
 */
struct av_outcome av_execute(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
			     const struct av_sq_wqe *wqe, struct av_after *after);

/*
 * The same on a reliable connection, with a responder that finds @fault, whatever the request is.
 * Copies no bytes; @fault has its effects on both sides.
 */
struct av_outcome av_execute_refuse(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				    const struct av_sq_wqe *wqe, enum av_fault fault);

/* The same by @operation, of a valid request on a reliable connection. */
struct av_outcome av_execute_by(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				const struct av_sq_wqe *wqe, av_operation *operation);

struct av_fragment;

/*
 * Execute a request, or a part of one, that a packet brought: as av_execute(), but @rsp's
 * @resp_lock is held before and afterwards, the requester's buffers are those of @fragment, and its
 * queue pair is the one that @rsp is connected to. @head: the request, as it would be in the
 * requester's ring; @bytes is the length of this fragment. @events: out, for av_events_raise()
 */
struct av_outcome av_execute_fragment(const struct av_qp_ref *rsp, const struct av_sq_wqe *head,
				      const struct av_fragment *fragment, struct av_events *events);

/*
 * The checks of a request that the requester makes alone, for all services.
 * Return: AV_FAULT_NONE; AV_FAULT_LOC_QP_OP, AV_FAULT_LOC_LEN: the reason has been noted
 */
enum av_fault av_execute_check(const struct av_qp_ref *req, const struct av_sq_wqe *head);

/* === datagram ==================================================================== */

/*
 * The 40 bytes in front of a datagram's payload in the receive buffer. They hold the global route
 * header or, with RoCEv2 over IPv4, 20 undefined bytes and the IPv4 header. Pure functions.
 * Source: IBTA volume 1, 8.3, and annex A17.
 */

#define AV_GRH_BYTES 40

/*
 * The kind of header in front of the payload, for the completion. The 40 bytes do not say it: 20 of
 * the IPv4 form are undefined (annex A17.4.5.1). Verbs have no field for it. So adapters use the
 * service level, which Ethernet frames do not have. In mlx5, bits 0 to 2 are the layer 3 header,
 * and bit 3 means that UDP follows.
 */
enum av_packet_type { AV_PACKET_V1 = 0, AV_PACKET_V2_IPV6 = 9, AV_PACKET_V2_IPV4 = 10 };

struct av_grh_fields {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint32_t payload; /* bytes of the message */
	bool immediate;	  /* the message has immediate data */
	bool iba;	  /* next header "IBA" instead of UDP: InfiniBand, RoCE v1 */
};

/* The form of the 40 bytes that av_grh_write() writes. */
enum av_packet_type av_grh_packet_type(const struct av_grh_fields *fields);

void av_grh_write(uint8_t to[AV_GRH_BYTES], const struct av_grh_fields *fields);

/* Decode all but @payload and @immediate. Return: false if the 40 bytes have neither form */
AV_MUST_USE bool av_grh_read(const uint8_t from[AV_GRH_BYTES], struct av_grh_fields *fields);

/*
 * Execute one request of a UD queue pair, as av_execute(), except that the request names the
 * destination (a queue pair or a multicast group), and never waits for a receiver: a message that
 * cannot be received is dropped. The request waits (AV_WAIT_FULL) while the interface has no room.
 * @peer: the cached destination of the last datagram, under @req_lock; holds a use of its segment
 */
struct av_outcome av_datagram_execute(const struct av_qp_ref *req, struct av_qp_ref *peer,
				      const struct av_sq_wqe *wqe, struct av_after *after);

/* Does the request leave this host? A group may have members on other hosts. Any thread. */
bool av_datagram_leaves(const struct av_qp_ref *req, const struct av_sq_wqe *head);

struct av_net_packet;

/*
 * A datagram arrived as a packet, for a queue pair of this process or a group.
 * @struck: the fault rules have already decided on this packet
 * Context: the thread that receives packets (struct av_net_receiver); no queue pair lock held.
 */
void av_datagram_arrived(const struct av_net_packet *packet, bool struck);
