/* SPDX-License-Identifier: MIT */
/* Requests of the common kind. */
#include "transport/express.h"

#include <string.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "registry/directory.h"
#include "base/limits.h"
#include "memory/pin.h"
#include "memory/plain.h"
#include "queue/cq.h"
#include "transport/assist.h"
#include "transport/responder.h"

struct express {
	struct av_seg *here, *there;
	struct av_qp_shared *req, *rsp;
	const struct av_sq_wqe *wqe;
	struct ibv_sge sge; /* the element, copied; of inline data its length only */
	struct av_pin *local, *remote;
	uint64_t now_ns;
	enum av_fault fault;
};

/* The requester's bytes; @access as in av_plain_at(). NULL: look closer. */
static uint8_t *local_bytes(const struct express *x, uint32_t access)
{
	if (x->wqe->flags & IBV_SEND_INLINE)
		return (uint8_t *)(uintptr_t)x->wqe->data;
	return av_plain_at(x->here, x->sge.lkey, x->req->pd, access, x->sge.addr, x->sge.length)
		.local;
}

static struct av_plain remote_bytes(const struct express *x, uint32_t access)
{
	if (!(x->rsp->attr.qp_access_flags & access))
		return (struct av_plain){0};
	return av_plain_at(x->there, x->wqe->rkey, x->rsp->pd, access, x->wqe->remote_addr,
			   x->sge.length);
}

/* Are both ends in reach, and would a copy not overwrite what it has yet to read? */
static bool may_copy(const struct express *x, const void *to, const void *from)
{
	return to && from && av_likely(!av_copy_destroys(to, from, x->sge.length));
}

static bool copy(const struct express *x, void *to, const void *from)
{
	return may_copy(x, to, from) &&
	       av_copy_at(to, from, x->sge.length, x->now_ns) == AV_COPY_OK;
}

static bool do_write(struct express *x)
{
	return copy(x, remote_bytes(x, IBV_ACCESS_REMOTE_WRITE).local, local_bytes(x, 0));
}

static bool takes_answers(const struct express *x)
{
	return x->req->attr.max_rd_atomic && x->rsp->attr.max_dest_rd_atomic &&
	       !(x->wqe->flags & IBV_SEND_INLINE);
}

static bool do_read(struct express *x)
{
	if (!takes_answers(x))
		return false;
	return copy(x, local_bytes(x, IBV_ACCESS_LOCAL_WRITE),
		    remote_bytes(x, IBV_ACCESS_REMOTE_READ).local);
}

/* --- atomics --------------------------------------------------------------------- */

/* The operation itself, under the lock that all who do one to these bytes take. */
static enum av_copy_result change(const struct express *x, const struct av_plain *at, uint64_t *old)
{
	struct av_lock *lock = av_dir_atomic_lock(x->there->pid, at->addr);
	const struct av_sq_wqe *w = x->wqe;
	enum av_copy_result ret;

	av_lock_acquire_plain(lock);
	if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ret = av_copy_fetch_add_at(at->local, w->compare_add, old, x->now_ns);
	else
		ret = av_copy_cmp_swap_at(at->local, w->compare_add, w->swap, old, x->now_ns);
	av_lock_release(lock);
	return ret;
}

static bool do_atomic(struct express *x)
{
	uint8_t *answer = local_bytes(x, IBV_ACCESS_LOCAL_WRITE);
	struct av_plain at = remote_bytes(x, IBV_ACCESS_REMOTE_ATOMIC);
	uint64_t old;

	if (!takes_answers(x) || !answer || !at.local || x->sge.length != sizeof(old) ||
	    (x->wqe->remote_addr | at.addr) % sizeof(old))
		return false;
	/* The page is brought in before the lock is taken: see av_xfer_atomic(). */
	if (av_copy_probe_at(at.local, 0, x->now_ns) != AV_COPY_OK ||
	    av_copy_probe_at(answer, 1, x->now_ns) != AV_COPY_OK ||
	    change(x, &at, &old) != AV_COPY_OK)
		return false;
	if (av_copy_at(answer, &old, sizeof(old), x->now_ns) != AV_COPY_OK)
		x->fault = AV_FAULT_LOC_PROT; /* it cannot be done again: the memory is changed */
	return true;
}

/* --- SEND ------------------------------------------------------------------------ */

/* The completion of a receive request; payload that travels in it is written by the caller. */
static void fill_receive(struct av_cqe *e, const struct express *x, uint64_t wr_id)
{
	bool imm = x->wqe->opcode == IBV_WR_SEND_WITH_IMM;

	e->wr_id = wr_id;
	e->status = IBV_WC_SUCCESS;
	e->sl = 0;
	e->opcode = IBV_WC_RECV;
	e->slid = 0;
	e->flags = AV_CQE_RECV | (x->wqe->flags & IBV_SEND_SOLICITED ? AV_CQE_SOLICITED : 0);
	e->data_len = 0;
	e->byte_len = x->sge.length;
	e->imm = imm ? x->wqe->imm : 0;
	e->wc_flags = imm ? IBV_WC_WITH_IMM : 0;
	e->qpn = atomic_load_explicit(&x->rsp->qpn, memory_order_relaxed);
	e->src_qp = atomic_load_explicit(&x->req->qpn, memory_order_relaxed);
	e->queue = x->rsp->rq;
	e->wqe = x->rsp->receiving - 1;
	e->stage = e->stage_len = 0;
}

/* A short message travels in the completion; whoever polls that places it. */
static bool carry(struct express *x, const struct av_rq_shared *rq, uint64_t wr_id,
		  const struct ibv_sge *to)
{
	uint8_t data[AV_CQE_DATA] AV_ALIGNED(16) = {0}; /* all of it goes into the entry */
	const uint8_t *from = local_bytes(x, 0);
	struct av_cq_append a;

	if (!from || av_copy_at(data, from, x->sge.length, x->now_ns) != AV_COPY_OK)
		return false;
	av_pin_announce(x->remote, to->lkey);
	if (!av_cq_append_begin(x->there, x->rsp->recv_cq, &a))
		return false;
	av_pin_barrier(); /* after the CQ's lock was taken */
	if (!av_plain_at(x->there, to->lkey, rq->pd, IBV_ACCESS_LOCAL_WRITE, to->addr,
			 x->sge.length)
		     .found) {
		av_cq_append_cancel(&a);
		return false;
	}
	fill_receive(a.to, x, wr_id);
	a.to->data_len = (uint8_t)x->sge.length;
	av_cqe_copy_data(a.to->data, data, x->sge.length);
	av_cq_append_end(&a);
	return true;
}

/* A large one may be copied by both sides. */
static bool copy_large(const struct express *x, const struct ibv_sge *to, uint8_t *at)
{
	const struct av_assist_message m = {x->here, x->there, x->rsp, x->sge, *to, x->now_ns};
	const uint8_t *from = local_bytes(x, 0);

	return may_copy(x, at, from) && av_assist_copy(&m, at, from);
}

/* A longer one is put where it belongs, if that can be reached. */
static bool put(struct express *x, const struct av_rq_shared *rq, uint64_t wr_id,
		const struct ibv_sge *to)
{
	struct av_cq_append a;
	struct av_plain at;

	av_pin_announce_alone(x->remote, to->lkey);
	av_pin_barrier();
	at = av_plain_at(x->there, to->lkey, rq->pd, IBV_ACCESS_LOCAL_WRITE, to->addr,
			 x->sge.length);
	if (av_unlikely(x->sge.length >= AV_ASSIST_MIN) ? !copy_large(x, to, at.local)
							: !copy(x, at.local, local_bytes(x, 0)))
		return false;
	if (!av_cq_append_begin(x->there, x->rsp->recv_cq, &a))
		return false;
	fill_receive(a.to, x, wr_id);
	av_cq_append_end(&a);
	return true;
}

static bool deliver(struct express *x, struct av_rq_shared *rq, const struct av_rq_wqe *request)
{
	uint64_t wr_id = request->wr_id;
	struct ibv_sge to;

	if (request->count != 1)
		return false;
	to = request->sge[0];
	if (x->sge.length > to.length)
		return false;
	return x->sge.length <= AV_CQE_DATA ? carry(x, rq, wr_id, &to) : put(x, rq, wr_id, &to);
}

static AV_FLAT bool do_send(struct express *x)
{
	struct av_rq_shared *rq = av_rq_at(x->there, x->rsp->rq);
	const struct av_rq_wqe *request;
	bool done;

	if (!rq || x->rsp->srq || x->rsp->inline_recv || x->there->own)
		return false;
	request = av_rq_take(x->there, rq, 0, &x->rsp->receiving);
	if (!request)
		return false;
	done = deliver(x, rq, request);
	if (!done)
		av_rq_untake(x->there, rq, x->rsp->receiving - 1);
	x->rsp->receiving = 0; /* only now: whoever repairs after our death looks here */
	av_rq_prefetch(x->there, rq);
	return done;
}

/* --- the request ----------------------------------------------------------------- */

static bool (*const operation[])(struct express *x) = {
	[IBV_WR_RDMA_WRITE] = do_write,		 [IBV_WR_SEND] = do_send,
	[IBV_WR_SEND_WITH_IMM] = do_send,	 [IBV_WR_RDMA_READ] = do_read,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = do_atomic, [IBV_WR_ATOMIC_FETCH_AND_ADD] = do_atomic,
};

/* The one element that the request has. */
static bool one_element(struct express *x)
{
	uint64_t bytes = x->wqe->bytes;

	if (x->wqe->flags & IBV_SEND_INLINE) {
		x->sge = (struct ibv_sge){.length = (uint32_t)bytes};
		return bytes > 0 && bytes <= AV_MAX_INLINE;
	}
	if (x->wqe->count != 1)
		return false;
	x->sge = x->wqe->sge[0];
	return x->sge.length > 0 && x->sge.length <= AV_MAX_MSG_BYTES;
}

/* With the responder's execution right. */
static bool execute(struct express *x)
{
	struct av_qp_shared *q = x->req, *p = x->rsp;

	if (atomic_load_explicit(&p->qpn, memory_order_relaxed) != q->attr.dest_qp_num ||
	    !av_responder_expects(p, q))
		return false;
	if (!p->established && atomic_load_explicit(&p->state, memory_order_relaxed) == IBV_QPS_RTR)
		return false; /* there is an event to be raised */
	if (!operation[x->wqe->opcode](x))
		return false;
	if (av_likely(x->fault == AV_FAULT_NONE))
		av_responder_advance(p, q, x->wqe->opcode, x->sge.length);
	return true;
}

/* The requester's key; 0: inline data needs none. */
static uint32_t announced(const struct express *x)
{
	return x->wqe->flags & IBV_SEND_INLINE ? 0 : x->sge.lkey;
}

/* What is not known is asked for, once in a few milliseconds: the other way would have to ask, too.
 */
static bool peer_lives(const struct express *x)
{
	return av_likely(av_seg_known_alive(x->there, x->now_ns)) || av_seg_alive(x->there);
}

static bool is_candidate(const struct av_qp_end *req, const struct av_qp_end *rsp, uint32_t opcode)
{
	return av_likely(opcode < AV_ARRAY_SIZE(operation) && operation[opcode] && rsp->qp &&
			 req->seg->own) &&
	       req->qp->type == IBV_QPT_RC;
}

bool av_express(const struct av_qp_end *req, const struct av_qp_end *rsp,
		const struct av_sq_wqe *wqe, enum av_fault *fault)
{
	struct express x;
	bool done;

	if (!is_candidate(req, rsp, wqe->opcode))
		return false;
	x.here = req->seg;
	x.there = rsp->seg;
	x.req = req->qp;
	x.rsp = rsp->qp;
	x.wqe = wqe;
	x.fault = AV_FAULT_NONE;
	x.now_ns = av_now_coarse_ns();
	x.local = av_pin_kept(x.here, AV_PIN_LOCAL);
	x.remote = av_pin_kept(x.there, AV_PIN_REMOTE);
	if (av_unlikely(!x.local || !x.remote || !one_element(&x) || !peer_lives(&x)))
		return false;
	av_pin_announce(x.local, announced(&x));
	av_pin_announce(x.remote, wqe->rkey);
	done = av_lock_try_free(&x.rsp->resp);
	if (av_likely(done)) {
		av_pin_barrier(); /* after the execution right was taken */
		done = execute(&x);
		av_lock_release(&x.rsp->resp);
	}
	av_pin_rest(x.local);
	av_pin_rest(x.remote);
	*fault = x.fault;
	return done;
}
