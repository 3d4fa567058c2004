/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs: the shared part, the private part, and their creation and end. What a queue pair
 * *does* with its requests is transport/'s business.
 *
 * The shared part has two execution rights: locks that may be held over a copy or a page fault
 * (docs/concurrency/MODEL.md).
 *  - @exec, the requester's: its holder executes the send queue, in order. The owner's threads
 *    only; a poster tries to take it, and otherwise leaves its requests to the holder.
 *  - @resp, the responder's: held while a peer's request is executed against this queue pair.
 * A change of state holds both, @exec first.
 */
#ifndef AV_QUEUE_QP_H
#define AV_QUEUE_QP_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "memory/odp.h"
#include "memory/translate.h"
#include "observe/counters.h"
#include "observe/wr_opcode.h"
#include "queue/cq.h"
#include "queue/rq.h"
#include "segment/segment.h"

/* === qp ========================================================================== */

/* Why the request at the head of a send queue has not been executed yet. */
enum av_wait {
	AV_WAIT_NONE,
	AV_WAIT_RNR,	   /* the peer has no receive posted */
	AV_WAIT_NO_ANSWER, /* the peer is not there, or not in a state to answer */
	AV_WAIT_HELD,	   /* held on demand: transport/observed.h */
	AV_WAIT_FULL,	   /* the interface to its peer's host has no room for a packet */
};

/* How far is a connection of one host on its way to the wire? transport/transport.h */
enum av_to_wire {
	AV_TO_WIRE_NOT,
	AV_TO_WIRE_WANTED, /* the kernel refused an access: the peer is to move first, */
	AV_TO_WIRE_WAITS,  /* and has been asked to */
	AV_TO_WIRE_ASKED,  /* the peer asks, or has moved: this side is to move */
	AV_TO_WIRE_MOVED,
	AV_TO_WIRE_CANNOT,
};

/*
 * A send request in the ring: its header, then its elements or inline data. If the queue pair has
 * operations with operands, those lie at the end of the slot: av_sq_operands().
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
					uint32_t region; /* binding a window: lkey of its region; 0:
							    none */
					uint32_t access; /* and its access rights */
				};
				struct {
					uint32_t placement;   /* FLUSH: the kinds of placement */
					uint32_t selectivity; /* FLUSH: the range, or all that the
								 key names */
				};
			};
		};
		struct {
			uint64_t base;	 /* first address of a UMR key */
			uint64_t rounds; /* how often its list repeats */
			uint64_t list;	 /* offset of its list; 0: in the request */
		} umr;
		struct {
			union ibv_gid dgid;
			uint32_t qpn, qkey;
		} ud; /* a datagram's destination, copied when it was posted */
	};
	uint64_t bytes;	 /* sum of the elements, or of the inline data */
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t flags;	 /* enum ibv_send_flags */
	uint32_t imm;	 /* network order, or the rkey to invalidate */
	uint32_t count;	 /* elements; 0 with inline data; or those of a UMR key's list */
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

/* Bytes of a slot that hold operands, in queues that have room for them. */
#define AV_SQ_OPERANDS \
	((sizeof(struct av_atomic) + AV_CACHE_LINE - 1) / AV_CACHE_LINE * AV_CACHE_LINE)

struct av_qp_shared {
	/* Identity: written by the owner with both execution rights held, read with either. */
	_Atomic uint32_t qpn;	/* 0: no queue pair here */
	_Atomic uint32_t state; /* enum ibv_qp_state; read without an execution right as a hint */
	/*
	 * LAST_WQE_REACHED is due: the next to drive the send queue raises it. In this line,
	 * because that one reads it anyway and the responder's line is busy.
	 */
	_Atomic uint32_t last_wqe;
	uint32_t type; /* enum ibv_qp_type */
	uint32_t index;
	uint32_t pd;
	uint32_t send_cq, recv_cq; /* indices in this segment */
	uint32_t rq;		   /* index of the receive queue */
	uint32_t xrcd;		   /* XRC_RECV: number of its domain */
	uint32_t srq;		   /* that queue is shared (1) or its own (0) */
	uint32_t sq_capacity;
	uint32_t sq_mask;
	uint32_t sq_stride;
	uint32_t sq_max_sge;
	uint32_t max_inline;
	uint32_t max_operand; /* largest operand of its atomic operations, in bytes; 0: only the
				 plain ones */
	uint32_t sig_all;
	_Atomic uint32_t wire;	  /* its requests travel in packets: transport/transport.h */
	_Atomic uint32_t to_wire; /* enum av_to_wire; set without a right */
	uint32_t inline_recv;	  /* messages of up to so many bytes wait for the poller */
	uint32_t blocks_loopback; /* what it sends to groups reaches nobody on this host */
	uint64_t sq_ring;	  /* offset */
	struct ibv_qp_attr attr;  /* qp_state: the last one that the program has asked for */

	/* Requester: the owner's threads only. Guarded by @exec, except where noted. */
	struct av_lock exec AV_ALIGNED(AV_CACHE_LINE);
	/* Next to @exec: a poster takes both at once. */
	struct av_lock append;
	uint32_t sq_next; /* free-running: next request to execute */
	uint32_t next_psn;
	uint32_t rnr_spent, timeout_spent; /* tries of the waiting request: transport/rules.h */
	uint32_t drain_notify;		   /* raise SQ_DRAINED once nothing is in flight */
	_Atomic uint32_t
		wait_reason; /* enum av_wait; the owner's timer reads it without the right */
	_Atomic uint64_t deadline_ns; /* of the waiting request's next retry; read the same way */
	_Atomic uint32_t kick;	      /* an obstacle was removed; set without the right */
	_Atomic uint32_t sq_tail
		AV_ALIGNED(AV_CACHE_LINE); /* requests posted; owner, under @append */
	_Atomic uint32_t sq_freed;	   /* requests with a free slot again; owner's pollers */

	/* Responder. Guarded by @resp. */
	struct av_lock resp AV_ALIGNED(AV_CACHE_LINE);
	uint32_t expected_psn;
	uint32_t receiving_srqn; /* XRC: number of the queue that @receiving is in */
	uint32_t receiving; /* place + 1 of the receive request that is taken and not completed; 0:
			       none */
	uint32_t established;	    /* COMM_EST has been raised */
	uint32_t msn;		    /* messages completed; the low 24 bits are the MSN */
	_Atomic uint32_t flush_due; /* transport/progress.c; set without the right */
	_Atomic uint32_t
		reading; /* transport/transport.h: av_wire_read_on(); read without the right */

	/*
	 * Each part is in cache lines of its executor. The counters go on when the index is used
	 * again. @before holds what its earlier queue pairs had counted; it is written with both
	 * execution rights held.
	 */
	struct av_qp_counters counters;
	struct av_qp_counters before;
};
static_assert(sizeof(struct av_qp_shared) <= AV_QP_BYTES, "QP table entry");
static_assert(offsetof(struct av_qp_shared, counters) == AV_QP_COUNTERS_AT,
	      "where segment/segment_map.c reads them");

static inline struct av_qp_shared *av_qp_at(const struct av_seg *seg, uint32_t index)
{
	return av_slab_at(seg, AV_SLAB_QP, index, AV_QP_BYTES, AV_OBJ_CHUNK);
}

/*
 * A queue pair as its executor sees it: its segment, and its address in this process's mapping of
 * it.
 */
struct av_qp_ref {
	struct av_seg *seg;
	struct av_qp_shared *qp; /* NULL: there is none */
};

/* The number that others know it by. */
static inline uint32_t av_qp_number(const struct av_qp_ref *end)
{
	return atomic_load_explicit(&end->qp->qpn, memory_order_relaxed);
}

struct av_qp_location; /* registry/directory.h */

/*
 * Find a queue pair of this host by its number; at a place of the directory. It may have ended
 * meanwhile, and its slot may be another's: its number says so while a right of it is held.
 * Context: any thread.
 * Return: .seg holds a use, for av_seg_put(); NULL: there is no such context. .qp: NULL: there is
 * no such queue pair
 */
struct av_qp_ref av_qp_get(uint32_t qpn);
struct av_qp_ref av_qp_get_at(const struct av_qp_location *location);

struct av_qp_request {
	uint32_t type;
	uint32_t pd;
	uint32_t send_cq, recv_cq;
	uint32_t sig_all;
	uint32_t srq;			     /* index of a shared receive queue; 0: its own */
	uint32_t xrcd;			     /* XRC_RECV: number of its domain */
	uint32_t inline_recv;		     /* 0 .. AV_MAX_INLINE_RECV */
	uint32_t max_operand;		     /* see struct av_qp_shared */
	bool blocks_loopback;		     /* the same */
	struct ibv_qp_cap cap;		     /* checked against the device's limits by the caller */
	uint32_t limit;			     /* max_qp of the device, all processes together */
	const struct av_page_policy *policy; /* of its rings' pages; NULL: any */
};

/**
 * av_qp_round_cap() - raise what was asked for to what the rings have room for, as adapters do
 * @max_wr: the device's max_qp_wr, which no depth exceeds. A depth of 0 stays 0.
 */
void av_qp_round_cap(struct ibv_qp_cap *cap, uint32_t max_wr);

/**
 * av_qp_init() - set up a queue pair in state RESET in an own segment, and give it a number
 * Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_qp_init(struct av_seg *seg, const struct av_qp_request *req);

/* End a queue pair in state RESET. Nobody can find it any more. */
void av_qp_fini(struct av_seg *seg, uint32_t index);

/* The fields of a bind request. */
void av_sq_fill_bind(struct av_sq_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info);

/* The fields of a datagram's destination. */
void av_sq_fill_ud(struct av_sq_wqe *wqe, const struct ibv_ah_attr *ah, uint32_t qpn,
		   uint32_t qkey);

/*
 * The address vector of an address handle, or NULL. The caller of av_sq_post() passes it, because
 * the queue folder knows no handles.
 */
typedef const struct ibv_ah_attr *av_ah_lookup(const struct ibv_ah *ah);

/* The largest slot, in bytes. */
#define AV_SQ_STRIDE_MAX (64 + AV_MAX_INLINE + AV_MAX_SGE * 16 + AV_SQ_OPERANDS)

/*
 * Slot of a send request; NULL: the ring is unsound, since a peer's segment may hold anything. At
 * least the largest slot's length is mapped there.
 */
static inline struct av_sq_wqe *av_sq_slot(const struct av_qp_ref *end, uint32_t number)
{
	const struct av_qp_shared *qp = end->qp;
	uint64_t place = number & qp->sq_mask;

	return av_seg_piece(end->seg, qp->sq_ring + place * qp->sq_stride, AV_SQ_STRIDE_MAX);
}

/*
 * The operands of a request in a slot that av_sq_slot() has found; NULL: the queue has no room for
 * them.
 */
struct av_atomic *av_sq_operands(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/* A request that plain verbs do not have. */
struct av_sq_special {
	uint64_t wr_id;
	uint32_t opcode; /* AV_WR_... */
	uint32_t flags;	 /* enum ibv_send_flags */
	uint32_t key;	 /* the UMR key; and to fill it: */
	uint32_t rights; /* enum ibv_access_flags */
	uint64_t base, rounds;
	uint32_t count;			    /* elements of its list, laid out by av_klm_layout() */
	const struct av_klm_entry *inlined; /* the elements, to be copied; else NULL, and */
	uint64_t list; /* their offset in the own segment, kept until the request is completed */
};

/**
 * av_sq_post_special() - append one such request
 *
 * Context: as av_sq_post().
 * Return:  0, ENOMEM (full), EINVAL (the list does not fit the queue's slots)
 */
AV_MUST_USE int av_sq_post_special(const struct av_qp_ref *end, const struct av_sq_special *req);

/*
 * The elements of the list in a UMR key's request; NULL: not wholly in the ring's slot, or in the
 * segment.
 */
const struct av_klm_entry *av_sq_list(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/**
 * av_sq_post() - append a list of send requests, in the owner's process, without executing any
 * @bad:      out on failure, the first request not posted; those before it are
 * @operands: NULL for a program's list. A list that the library made may hold opcodes with
 * operands; then this has an entry for each request, which is read only for those opcodes.
 *
 * Context: the caller holds the queue pair's @append and has checked the state.
 * Return:  0, ENOMEM (full), EINVAL (opcode unknown or not for this service, too many elements, too
 * much or impossible inline data, an operand of a wrong size, a result without an element, an
 * invalid address handle)
 * Source: ibv_post_send(3).
 */
AV_MUST_USE int av_sq_post(const struct av_qp_ref *end, struct ibv_send_wr *wr,
			   struct ibv_send_wr **bad, av_ah_lookup *find_ah,
			   const struct av_atomic *operands);

/**
 * av_sq_complete() - append the completion of the request at the head, and step over it
 * @wqe: the request
 *
 * A request that is not signalled and has succeeded is only stepped over.
 * Context: @exec is held. Return: 0, AV_CQ_DROPPED, or -ENOSPC: no room in the CQ
 */
AV_MUST_USE int av_sq_complete(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			       enum ibv_wc_status status);

/*
 * The queue-pair state machine: which transitions exist for which service, and which attribute-mask
 * bits each requires or permits. Pure functions. Source: IBTA volume 1, 10.3.1 and 11.2.5.2 (Modify
 * Queue Pair); ibv_modify_qp(3).
 */

#define AV_QP_STATE_N 7 /* IBV_QPS_RESET .. IBV_QPS_ERR */

struct av_qp_transition {
	bool valid;
	int required; /* enum ibv_qp_attr_mask bits besides IBV_QP_STATE */
	int optional;
};

/* The cell for one service and pair of states. Not valid for any other type or state. */
struct av_qp_transition av_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
					 enum ibv_qp_state to);

/*
 * Remove attributes that an XRC service does not have, but programs written for RC pass. They are
 * neither checked nor stored.
 */
int av_qp_own_mask(enum ibv_qp_type type, int attr_mask);

/*
 * May this attribute mask be applied to a QP in state @from? Without IBV_QP_STATE the transition is
 * @from -> @from. With IBV_QP_CUR_STATE, @cur (RTR, RTS, SQD or SQE) replaces @from. Does not check
 * the values of attributes. @to_out: the state afterwards; written only on success.
 * Return:  0, or EINVAL: no such transition, a required bit is missing, or a bit is not permitted
 */
int av_qp_check_modify(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state cur,
		       enum ibv_qp_state to, int attr_mask, enum ibv_qp_state *to_out);

/* === objects ===================================================================== */

/* The objects of a context: which there are, who uses them, what they count. */

/*
 * The counters of a device, of the processes that use it, and of their queue pairs and CQs. Joins
 * no directory; opens files. What is changing at this moment may be left out, or shown half
 * changed. Context: any thread, no lock held.
 */

struct av_qp_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t qpn;
	uint32_t type;	/* enum ibv_qp_type */
	uint32_t state; /* enum ibv_qp_state */
	uint32_t dest_qpn;
	uint32_t send_cq, recv_cq; /* numbers, as in struct av_cq_info */
	uint32_t pd;		   /* number, as in struct av_pd_info */
	uint32_t sq_psn, rq_psn;   /* as ibv_query_qp() says them */
	uint8_t path_mig_state;	   /* enum ibv_mig_state */
	uint8_t port;		   /* 0: not chosen yet */
	struct av_counted counted;
};

struct av_cq_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t number;  /* in its context */
	uint32_t users;	  /* av_cq_users() */
	struct av_counted counted;
};

struct av_process_info {
	int32_t pid;
	uint64_t pidns;			/* inode number of @pid's PID namespace */
	struct av_counted counted;	/* of the contexts it has open */
	uint64_t odp[AV_ODP_COUNTER_N]; /* of the same contexts, without the gauges */
};

/*
 * Of a device since its last reset, in all processes, living and dead; gauges: of the living only.
 */
void av_report_device(const char *device, struct av_counted *counted);

typedef void av_report_qp(const struct av_qp_info *info, void *arg);
typedef void av_report_cq(const struct av_cq_info *info, void *arg);
typedef void av_report_process(const struct av_process_info *info, void *arg);

void av_report_qps(const char *device, av_report_qp *visit, void *arg);
void av_report_cqs(const char *device, av_report_cq *visit, void *arg);

/* When a process closes a context, its own counters lose that context's; the device's do not. */
void av_report_processes(const char *device, av_report_process *visit, void *arg);

/*
 * The objects of a context, found in its segment by any process. Reports join no directory; they
 * open files. What is changing at this moment may be left out, or shown half changed. Context: any
 * thread, no lock held.
 */

/* The next object from @index on, which moves past it. NULL: there is none. */
const struct av_qp_shared *av_qp_next(const struct av_seg *seg, uint32_t *index);
const struct av_cq_shared *av_cq_next(const struct av_seg *seg, uint32_t *index);
const struct av_rq_shared *av_srq_next(const struct av_seg *seg, uint32_t *index);

/*
 * How many queue pairs and shared receive queues use each CQ, by its index; both queues of a queue
 * pair count. The caller frees it. NULL: out of memory
 */
uint32_t *av_cq_users(const struct av_seg *seg);

struct av_context_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
};

struct av_pd_info {
	int32_t pid;
	uint32_t context;
	uint32_t number; /* in its context */
	uint32_t users;	 /* queue pairs, shared receive queues and regions in it */
};

struct av_srq_info {
	int32_t pid;
	uint32_t context;
	uint32_t number; /* in its context */
	uint32_t pd;	 /* number, as in struct av_pd_info */
	bool xrc;
	uint32_t cq;		  /* of an XRC one: number, as in struct av_cq_info */
	const struct av_seg *seg; /* while it is visited: for av_srq_qp() */
};

typedef void av_report_context(const struct av_context_info *info, void *arg);
typedef void av_report_pd(const struct av_pd_info *info, void *arg);
typedef void av_report_srq(const struct av_srq_info *info, void *arg);

void av_report_contexts(const char *device, av_report_context *visit, void *arg);

/* Domains of a context that imports another one's objects are left out: only it knows them. */
void av_report_pds(const char *device, av_report_pd *visit, void *arg);
void av_report_srqs(const char *device, av_report_srq *visit, void *arg);

/* The next queue pair that receives from that queue, from @index on as above; 0: there is none */
uint32_t av_srq_qp(const struct av_srq_info *srq, uint32_t *index);

#endif
