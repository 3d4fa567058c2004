/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs: the shared part, the private part, and their creation and end. What a queue pair
 * *does* with its requests is transport/'s business.
 *
 * The shared part has two execution rights: locks that may be held over a copy or a page fault
 * (docs/concurrency/MODEL.md).
 *  - @exec, the requester's: its holder executes the send queue, in order. A poster only tries to
 *    take it, and otherwise leaves its requests to the holder.
 *  - @resp, the responder's: held while a peer's request is executed against this queue pair.
 * A change of state holds both, @exec first.
 */
#ifndef AV_QUEUE_QP_H
#define AV_QUEUE_QP_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "segment/segment.h"
#include "memory/atomic_op.h"
#include "memory/klm_list.h"
#include "observe/counters.h"
#include "queue/cq.h"
#include "queue/rq.h"

/* Why the request at the head of a send queue has not been executed. */
enum av_park {
	AV_PARK_NOT,
	AV_PARK_RNR,	   /* the peer has no receive posted */
	AV_PARK_NO_ANSWER, /* the peer is not there, or not in a state to answer */
	AV_PARK_FENCED,	   /* it is fenced, and earlier answers have to be placed by the owner's
			      process */
	AV_PARK_HELD,	   /* it is held on demand: transport/inject.h */
};

/* Opcodes of requests and completions that plain verbs do not have; the values are the experimental
 * verbs'.
 */
enum {
	AV_WR_NOP = 101,
	AV_WR_UMR_FILL = 102,
	AV_WR_UMR_INVALIDATE = 103,
	AV_WC_UMR = 0x100,
};

/*
 * Operations with operands of their own, beside those of enum ibv_wr_opcode. The masked ones and
 * their completions have the values of enum ibv_exp_wr_opcode and enum ibv_exp_wc_opcode; the
 * others are the plain ones with another size of operands, and complete as those do.
 */
enum {
	AV_WR_SIZED_CMP_AND_SWP = 97,
	AV_WR_SIZED_FETCH_AND_ADD = 98,
	AV_WR_MASKED_CMP_AND_SWP = 99,
	AV_WR_MASKED_FETCH_AND_ADD = 100,
	AV_WC_MASKED_CMP_AND_SWP = 9,
	AV_WC_MASKED_FETCH_AND_ADD = 10,
};

/*
 * A send request as it lies in the ring: header, then elements or inline data; there is room for a
 * word. Of queue pairs that have operations with operands, those lie at the end of the slot:
 * av_sq_operands().
 */
struct av_sq_wqe {
	uint64_t wr_id;
	union {
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* or the length of a window, or of a FLUSH */
			union {
				uint64_t swap;
				struct {
					uint32_t region; /* binding a window: lkey of its region, 0:
							    none */
					uint32_t access; /* and its rights */
				};
				struct {
					uint32_t placement;   /* FLUSH: what is wanted, */
					uint32_t selectivity; /* of the range or of all that the key
								 names */
				};
			};
		};
		struct {
			uint64_t base;	 /* first address of an UMR key, */
			uint64_t rounds; /* how often its list is gone through, */
			uint64_t list;	 /* and where that is: offset, 0: in the request */
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
	uint32_t count;	 /* elements; 0 with inline data; or those of an UMR key's list */
	union {
		struct {
			uint32_t rkey;
			union {
				uint32_t window; /* binding a window: a key of its index */
				uint32_t srqn;	 /* XRC: number of the shared receive queue */
				uint32_t rights; /* of an UMR key */
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
	((uint32_t)(sizeof(struct av_atomic) + AV_CACHE_LINE - 1) / AV_CACHE_LINE * AV_CACHE_LINE)

struct av_qp_shared {
	/* Who this is: written by the owner with both execution rights held, read with either. */
	_Atomic uint32_t qpn; /* 0: no queue pair here */
	_Atomic uint32_t
		state; /* enum ibv_qp_state; also read without a execution right as a hint */
	/* LAST_WQE_REACHED is due; raised by the next to drive the send queue. Here, since that one
	 * always looks and the responder's line is busy. */
	_Atomic uint32_t last_wqe;
	uint32_t type; /* enum ibv_qp_type */
	uint32_t index;
	uint32_t pd;
	uint32_t send_cq, recv_cq; /* indices in this segment */
	uint32_t rq;		   /* index of the receive queue, */
	uint32_t xrcd;		   /* XRC_RECV: number of its domain */
	uint32_t srq;		   /* which is shared (1) or its own (0) */
	uint32_t sq_capacity;
	uint32_t sq_mask;
	uint32_t sq_stride;
	uint32_t sq_max_sge;
	uint32_t max_inline;
	uint32_t max_operand; /* bytes of the operands of its atomic operations; 0: it has only the
			       * plain ones
			       */
	uint32_t sig_all;
	/* Inline receive: messages, and answers to its own requests, of up to so many bytes wait
	 * for the poller. */
	uint32_t inline_recv, inline_answer;
	uint64_t sq_ring; /* offset */
	struct ibv_qp_attr attr;

	/* Requester. Guarded by @exec unless said otherwise. */
	struct av_lock exec AV_ALIGNED(AV_CACHE_LINE);
	struct av_lock append; /* right behind: a poster takes both at once. Owner's threads only */
	uint32_t sq_next;      /* free-running: next request to execute */
	uint32_t next_psn;
	uint32_t retries;	      /* left for the parked request */
	uint32_t drain_notify;	      /* raise SQ_DRAINED once nothing is in flight */
	_Atomic uint32_t park;	      /* enum av_park; also read by the owner's timer, without the
					 execution right */
	_Atomic uint64_t deadline_ns; /* of the parked request's next retry; likewise */
	_Atomic uint32_t
		answers; /* that wait for the poller; counted up by executors, down by the owner */
	_Atomic uint32_t kick; /* somebody removed an obstacle; set without the execution right */
	_Atomic uint32_t sq_tail
		AV_ALIGNED(AV_CACHE_LINE); /* requests posted; owner, under @append */
	_Atomic uint32_t sq_freed; /* requests whose slots are free again; the owner's pollers */

	/* Responder. Guarded by @resp. */
	struct av_lock resp AV_ALIGNED(AV_CACHE_LINE);
	uint32_t expected_psn;
	uint32_t receiving_srqn; /* XRC: number of the queue it was taken from */
	uint32_t receiving;   /* place + 1 of the receive request that was taken and not completed
			       * yet; 0: none
			       */
	uint32_t established; /* COMM_EST has been raised */
	uint32_t msn;	      /* messages completed; the low 24 bits are the MSN */

	/* Each part in lines of the executor's own. They go on when the place is used again: what
	 * its earlier queue pairs had counted is in @before, written with both execution rights
	 * held. */
	struct av_qp_counters counters;
	struct av_qp_counters before;
};
static_assert(sizeof(struct av_qp_shared) <= AV_QP_BYTES, "QP table entry");
static_assert(offsetof(struct av_qp_shared, counters) == AV_QP_COUNTERS_AT,
	      "where segment/totals.c reads them");

static inline struct av_qp_shared *av_qp_at(const struct av_seg *seg, uint32_t index)
{
	return av_slab_at(seg, AV_SLAB_QP, index, AV_QP_BYTES, AV_OBJ_CHUNK);
}

/* A queue pair as the one executing work sees it: which segment, and where in this process' mapping
 * of it. */
struct av_qp_end {
	struct av_seg *seg;
	struct av_qp_shared *qp; /* NULL: nowhere */
};

struct av_qp_request {
	uint32_t type;
	uint32_t pd;
	uint32_t send_cq, recv_cq;
	uint32_t sig_all;
	uint32_t srq;		/* index of a shared receive queue, or 0: one of its own */
	uint32_t xrcd;		/* XRC_RECV: number of its domain */
	uint32_t inline_answer; /* 0 .. AV_CQE_DATA; only with @sig_all */
	uint32_t inline_recv;	/* 0 .. AV_MAX_INLINE_RECV; with a shared queue .. AV_CQE_DATA */
	uint32_t max_operand;	/* see struct av_qp_shared */
	struct ibv_qp_cap cap;	/* checked against the device's limits by the caller */
	uint32_t limit;		/* max_qp of the device, all processes together */
	const struct av_page_policy *policy; /* of its rings' pages, NULL: any */
};

/**
 * av_qp_init() - set up a queue pair in state RESET in an own segment, and give it a number
 * Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_qp_init(struct av_seg *seg, const struct av_qp_request *req);

/* The end of a queue pair in state RESET that nobody can find any more. */
void av_qp_fini(struct av_seg *seg, uint32_t index);

/* The fields of a bind request. */
void av_sq_fill_bind(struct av_sq_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info);

/* The fields of a datagram's destination. */
void av_sq_fill_ud(struct av_sq_wqe *wqe, const struct ibv_ah_attr *ah, uint32_t qpn,
		   uint32_t qkey);

/* The address vector behind an address handle of the context, or NULL. Given to av_sq_post() by who
 * knows handles. */
typedef const struct ibv_ah_attr *av_ah_lookup(const struct ibv_ah *ah);

/* Bytes of a slot at most. */
#define AV_SQ_STRIDE_MAX (64 + AV_MAX_INLINE + AV_MAX_SGE * 16 + AV_SQ_OPERANDS)

/* Slot of a send request; NULL if the ring is unsound: a peer's segment may hold anything. So much
 * as the largest slot is there. */
static inline struct av_sq_wqe *av_sq_slot(const struct av_qp_end *end, uint32_t number)
{
	const struct av_qp_shared *qp = end->qp;
	uint64_t place = number & qp->sq_mask;

	return av_seg_piece(end->seg, qp->sq_ring + place * qp->sq_stride, AV_SQ_STRIDE_MAX);
}

/* The operands of the request in a slot that av_sq_slot() found; NULL if the queue has no room for
 * them. */
struct av_atomic *av_sq_operands(const struct av_qp_end *end, const struct av_sq_wqe *wqe);

/* A request that plain verbs do not have. */
struct av_sq_special {
	uint64_t wr_id;
	uint32_t opcode; /* AV_WR_... */
	uint32_t flags;	 /* enum ibv_send_flags */
	uint32_t key;	 /* UMR: the UMR key that is meant; and to fill it: */
	uint32_t rights; /* enum ibv_access_flags */
	uint64_t base, rounds;
	uint32_t count; /* of the list's elements, laid out by av_klm_layout() */
	const struct av_klm_entry *inlined; /* to be copied into the request; else NULL, */
	uint64_t list; /* and they are there in the own segment until the request is completed */
};

/**
 * av_sq_post_special() - append one such request, as av_sq_post() does
 * Return: 0, ENOMEM (full), EINVAL (the list does not fit the queue's slots)
 */
AV_MUST_USE int av_sq_post_special(const struct av_qp_end *end, const struct av_sq_special *req);

/*
 * The elements of the list of an UMR key's request. @ring: in the ring, @head: a copy of its
 * header. NULL if they are not wholly in the ring's slot, or in the segment.
 */
const struct av_klm_entry *av_sq_list(const struct av_qp_end *end, const struct av_sq_wqe *ring,
				      const struct av_sq_wqe *head);

/**
 * av_sq_post() - append a list of send requests, in the owner's process, without executing any
 *
 * @operands: NULL for a program's list. A list that the library made of others may hold the opcodes
 * with operands, and has an element here for each of its requests; that of another opcode is not
 * read. Context: the caller holds the queue pair's post lock and has checked the state.
 * @bad:    out on failure, the first request not posted; those before it are
 * Return:  0, ENOMEM (full), EINVAL (opcode unknown or not for this service, too many elements, too
 * much or impossible inline data, an operand of a wrong size or a result for no element, an address
 * handle that is none). ibv_post_send(3).
 */
AV_MUST_USE int av_sq_post(const struct av_qp_end *end, struct ibv_send_wr *wr,
			   struct ibv_send_wr **bad, av_ah_lookup *find_ah,
			   const struct av_atomic *operands);

#endif
