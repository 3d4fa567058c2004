/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs: the shared part, creating and ending one, posting to its send queue, and the state
 * machine. src/transport executes the requests.
 *
 * The shared part has two long locks, whose holder may copy or fault in pages
 * (docs/concurrency/MODEL.md). Whoever changes the state holds both, and takes @req_lock first.
 * - @req_lock, the requester's: its holder executes the send queue, in order. Only the owner's
 *   threads take it. A poster tries to; if that fails, the holder executes its requests, too.
 * - @resp_lock, the responder's: held while somebody executes a peer's request against it.
 */
#pragma once

#include "memory/odp.h"
#include "memory/translate.h"
#include "observe/wr_opcode.h"
#include "queue/cq.h"
#include "queue/rq.h"

/* === qp ========================================================================== */

/* Why the request at the head of a send queue waits. */
enum av_wait {
	AV_WAIT_NONE,
	AV_WAIT_RNR,	   /* RNR: the peer has posted no receive request */
	AV_WAIT_NO_ANSWER, /* the peer is gone, or in a state that does not answer */
	AV_WAIT_HELD,	   /* a fault on demand holds it: transport/observed.h */
	AV_WAIT_FULL,	   /* the interface to the peer's host has no room for a packet */
};

/* How far a connection within one host has moved to the wire: transport/transport.h */
enum av_to_wire {
	AV_TO_WIRE_NOT,
	AV_TO_WIRE_WANTED, /* the kernel refused an access; the peer must move first */
	AV_TO_WIRE_WAITS,  /* this side has asked the peer to move */
	AV_TO_WIRE_ASKED,  /* the peer has asked, or has moved; this side must move */
	AV_TO_WIRE_MOVED,
	AV_TO_WIRE_CANNOT,
};

/*
 * A send request in the ring: its header, then its elements or inline data, and at the slot's end
 * the operands, if the queue pair has operations with operands: av_sq_operands().
 */
struct av_sq_wqe {
	uint64_t wr_id;
	union {
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* or length of a window, or of a FLUSH */
			union {
				uint64_t swap;
				struct {
					uint32_t region; /* bind: lkey of the region; 0: none */
					uint32_t access; /* and its access rights */
				};
				struct {
					uint32_t placement;   /* FLUSH: the kinds of placement */
					uint32_t selectivity; /* FLUSH: range, or the whole key */
				};
			};
		};
		struct {
			uint64_t base;	 /* first address of a UMR key */
			uint64_t rounds; /* number of times that its list repeats */
			uint64_t list;	 /* offset of its list; 0: the request holds it */
		} umr;
		struct {
			union ibv_gid dgid;
			uint32_t qpn, qkey;
		} ud; /* a datagram's destination, copied by the poster */
	};
	uint64_t bytes;	 /* sum of the elements, or of the inline data */
	uint32_t opcode; /* enum ibv_wr_opcode, or AV_WR_... */
	uint32_t flags;	 /* enum ibv_send_flags */
	uint32_t imm;	 /* network order, or the rkey to invalidate */
	uint32_t count;	 /* number of elements, or of a UMR key's list; 0 with inline data */
	union {
		struct {
			uint32_t rkey;
			union {
				uint32_t window; /* binding a window: a key of its index */
				uint32_t srqn;	 /* XRC: number of the shared receive queue */
				uint32_t rights; /* of a UMR key */
			};
		};
		struct {
			uint32_t flow_label : 20, traffic_class : 8, sl : 4;
			uint32_t dlid : 16, sgid_index : 7, is_global : 1, hop_limit : 8;
		} route; /* the rest of a datagram's address vector */
	};
	union {
		struct ibv_sge sge[0];
		uint8_t data[0];
		struct av_klm_entry list[0];
	};
};
static_assert(sizeof(struct av_sq_wqe) == 64, "header of a send request");

/* Bytes for operands in a slot, if the queue has room for them. */
#define AV_SQ_OPERANDS \
	((sizeof(struct av_atomic) + AV_CACHE_LINE - 1) / AV_CACHE_LINE * AV_CACHE_LINE)

struct av_qp_shared {
	/* Identity. The owner writes these under both queue pair locks; a reader holds one. */
	_Atomic uint32_t qpn;	/* 0: no queue pair here */
	_Atomic uint32_t state; /* enum ibv_qp_state; a hint without a queue pair lock */
	/*
	 * LAST_WQE_REACHED is due: whoever executes the send queue next raises it. In this line,
	 * which that thread reads anyway, while the responder's line is busy.
	 */
	_Atomic uint32_t last_wqe;
	uint32_t type; /* enum ibv_qp_type */
	uint32_t index;
	uint32_t pd;
	uint32_t send_cq, recv_cq; /* indices in this segment */
	uint32_t rq;		   /* index of the receive queue */
	uint32_t xrcd;		   /* XRC_RECV: number of its domain */
	uint32_t srq;		   /* 1: the queue is shared; 0: the queue pair's own */
	uint32_t sq_capacity;
	uint32_t sq_mask;
	uint32_t sq_stride;
	uint32_t sq_max_sge;
	uint32_t max_inline;
	uint32_t max_operand; /* largest operand of its atomics, in bytes; 0: no extended atomics */
	uint32_t sig_all;
	_Atomic uint32_t wire;	  /* its requests travel in packets: transport/transport.h */
	_Atomic uint32_t to_wire; /* enum av_to_wire; written without a lock */
	uint32_t inline_recv;	  /* most bytes of a message whose payload waits for the poller */
	uint32_t blocks_loopback; /* its messages to groups reach nobody on this host */
	uint64_t sq_ring;	  /* offset in the segment */
	struct ibv_qp_attr attr;  /* qp_state: the last state that the program asked for */

	/* Requester: only the owner's threads; under @req_lock, unless a field says otherwise. */
	struct av_lock req_lock AV_ALIGNED(AV_CACHE_LINE);
	/* Next to @req_lock, because a poster takes both by one instruction. */
	struct av_lock append;
	uint32_t sq_next; /* free-running: next request to execute */
	uint32_t next_psn;
	uint32_t rnr_spent, timeout_spent; /* tries of the waiting request: transport/outcome.h */
	uint32_t drain_notify;		   /* raise SQ_DRAINED when no request is in flight */
	_Atomic uint32_t
		wait_reason;	    /* enum av_wait; the owner's timer reads it without the lock */
	_Atomic uint64_t gather_ns; /* when the messages that gather leave; 0: none do */
	_Atomic uint64_t deadline_ns; /* when to retry the waiting request; read the same way */
	_Atomic uint32_t kick;	      /* an obstacle is gone; set without the lock */
	_Atomic uint32_t sq_tail
		AV_ALIGNED(AV_CACHE_LINE); /* requests posted; the owner writes it under @append */
	_Atomic uint32_t sq_freed; /* requests whose slots are free again; owner's pollers */

	/* Responder. Guarded by @resp_lock. */
	struct av_lock resp_lock AV_ALIGNED(AV_CACHE_LINE);
	uint32_t expected_psn;
	uint32_t receiving_srqn;    /* XRC: number of the queue with request @receiving */
	uint32_t receiving;	    /* place + 1 of the request that is being received; 0: none */
	uint32_t established;	    /* COMM_EST has been raised */
	uint32_t msn;		    /* messages completed; the low 24 bits are the MSN */
	_Atomic uint32_t flush_due; /* transport/progress.c; set without the lock */
	_Atomic uint32_t
		reading; /* transport/transport.h: av_wire_read_on(); read without the lock */
	_Atomic uint32_t
		listed; /* its owner knows that something of it waits: transport/wire_qp.c */

	/*
	 * Each half is in its executor's cache lines. A new queue pair here keeps @counters.
	 * @before: what earlier ones had counted; the owner writes it under both queue pair locks.
	 */
	struct av_qp_counters counters;
	struct av_qp_counters before;
};
static_assert(sizeof(struct av_qp_shared) <= AV_QP_BYTES, "QP table entry");
static_assert(offsetof(struct av_qp_shared, counters) == AV_QP_COUNTERS_AT,
	      "where segment/segment_map.c reads them");

/* A queue pair as its executor sees it: segment, and the shared part in this process's mapping. */
struct av_qp_ref {
	struct av_seg *seg;
	struct av_qp_shared *qp; /* NULL: there is none */
};

/* The queue pair's number. */
static inline uint32_t av_qp_number(const struct av_qp_ref *end)
{
	return atomic_load_explicit(&end->qp->qpn, memory_order_relaxed);
}

struct av_qp_location; /* registry/directory.h */

/*
 * Find a queue pair of this host by its number; or by its location in the directory. It may have
 * ended meanwhile, and another one may use its slot: take a lock of it, then check its number.
 * Context: any thread; may block to map the segment.
 * Return: .seg: a use, for av_seg_put(); NULL: no such context. .qp: NULL: no such queue pair
 */
struct av_qp_ref av_qp_get(uint32_t qpn);
struct av_qp_ref av_qp_get_at(const struct av_qp_location *location);

struct av_qp_request {
	uint32_t type;
	uint32_t pd;
	uint32_t send_cq, recv_cq;
	uint32_t sig_all;
	uint32_t srq;	       /* index of a shared receive queue; 0: the queue pair has its own */
	uint32_t xrcd;	       /* XRC_RECV: number of its domain */
	uint32_t inline_recv;  /* 0 .. AV_MAX_INLINE_RECV */
	uint32_t max_operand;  /* see struct av_qp_shared */
	bool blocks_loopback;  /* see struct av_qp_shared */
	struct ibv_qp_cap cap; /* the caller has checked it against the device's limits */
	uint32_t limit;	       /* the device's max_qp, for all processes together */
	const struct av_page_policy *policy; /* pages of its rings; NULL: any */
};

/* Round capacities up to what the rings hold, at most @max_wr (max_qp_wr); a depth 0 stays 0. */
void av_qp_round_cap(struct ibv_qp_cap *cap, uint32_t max_wr);

/*
 * Set up a queue pair in state RESET in an own segment, and claim its number.
 * Context: any thread of the owner; no queue pair lock held. Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_qp_init(struct av_seg *seg, const struct av_qp_request *req);

/*
 * End a queue pair in state RESET. A peer that has found it takes a lock, and sees number 0.
 * Context: the owner; no queue pair lock held. Waits for both.
 */
void av_qp_fini(struct av_seg *seg, uint32_t index);

/* Fill in the fields of a bind request. */
void av_sq_fill_bind(struct av_sq_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info);

/* Fill in the fields of a datagram's destination. */
void av_sq_fill_ud(struct av_sq_wqe *wqe, const struct ibv_ah_attr *ah, uint32_t qpn,
		   uint32_t qkey);

/* The address vector of a handle; NULL: invalid. Passed to src/queue, which knows no handles. */
typedef const struct ibv_ah_attr *av_ah_lookup(const struct ibv_ah *ah);

/* The largest slot, in bytes. */
#define AV_SQ_STRIDE_MAX (64 + AV_MAX_INLINE + AV_MAX_SGE * 16 + AV_SQ_OPERANDS)

/* Slot of a send request, AV_SQ_STRIDE_MAX bytes mapped. NULL: unsound, by a peer's doing. */
struct av_sq_wqe *av_sq_slot(const struct av_qp_ref *end, uint32_t number);

/* The operands of a request in an av_sq_slot(). NULL: no room for them, or the ring is unsound. */
struct av_atomic *av_sq_operands(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/* A request that plain verbs do not offer: to fill a UMR key. */
struct av_sq_special {
	uint64_t wr_id;
	uint32_t opcode; /* AV_WR_... */
	uint32_t flags;	 /* enum ibv_send_flags */
	uint32_t key;	 /* the UMR key */
	uint32_t rights; /* of the key; enum ibv_access_flags */
	uint64_t base, rounds;
	uint32_t count; /* elements of its list, in the order of av_klm_layout() */
	const struct av_klm_entry *inlined; /* the elements, to be copied; NULL: see @list */
	uint64_t list; /* their offset in the own segment; stays valid until the completion */
};

/*
 * Append one such request. Context: as av_sq_post(). Return: 0; ENOMEM: the queue is full; EINVAL:
 * the slot cannot hold the list, or the ring is damaged
 */
AV_MUST_USE int av_sq_post_special(const struct av_qp_ref *end, const struct av_sq_special *req);

/* The list in a UMR key's request. NULL: not all of it is in the ring's slot, or in the segment. */
const struct av_klm_entry *av_sq_list(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/*
 * Append a list of send requests, without executing any.
 * @bad: out, on failure: the first request not posted. The requests before it are posted
 * @operands: NULL for a program's list. For a list of the library's own, one entry for each
 * request, read only for opcodes with operands
 * Context: the owner's threads; the caller holds the queue pair's @append and has checked the
 * state. Reads inline data at the program's addresses, so a bad address faults.
 * Return: 0; ENOMEM: the queue is full; EINVAL: opcode unknown or not for this service, too many
 * elements, a list that is NULL, too much or impossible inline data, an operand of a wrong size, a
 * result without an element, an invalid address handle, or a damaged ring
 * Source: ibv_post_send(3).
 */
AV_MUST_USE int av_sq_post(const struct av_qp_ref *end, struct ibv_send_wr *wr,
			   struct ibv_send_wr **bad, av_ah_lookup *find_ah,
			   const struct av_atomic *operands);

/*
 * Append the completion of @wqe, the request at the head, unless it is unsignalled and succeeded;
 * then advance the head.
 * Context: @req_lock is held; else as av_cq_push(). Return: 0; AV_CQ_DROPPED; -ENOSPC: as there
 */
AV_MUST_USE int av_sq_complete(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			       enum ibv_wc_status status);

/*
 * The state machine of queue pairs: each service's transitions, and which attributes each of them
 * requires or permits. Pure functions.
 * Source: IBTA volume 1, 10.3.1 and 11.2.5.2 (Modify Queue Pair); ibv_modify_qp(3).
 */

#define AV_QP_STATE_N 7 /* IBV_QPS_RESET .. IBV_QPS_ERR */

struct av_qp_transition {
	bool valid;
	int required; /* enum ibv_qp_attr_mask bits besides IBV_QP_STATE */
	int optional;
};

/* The cell for one service and pair of states. Not .valid for any other type or state. */
struct av_qp_transition av_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
					 enum ibv_qp_state to);

/* Remove attributes that an XRC service does not have: programs written for RC pass them. */
int av_qp_own_mask(enum ibv_qp_type type, int attr_mask);

/*
 * May the program apply this attribute mask to a QP in state @from? The values are not checked.
 * Without IBV_QP_STATE the transition is @from -> @from. With IBV_QP_CUR_STATE, @cur (RTR, RTS, SQD
 * or SQE) replaces @from. @to_out: the state afterwards; written only on success.
 * Return: 0; EINVAL: no such transition, a required bit is missing, or a bit is not permitted
 */
int av_qp_check_modify(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state cur,
		       enum ibv_qp_state to, int attr_mask, enum ibv_qp_state *to_out);
