/* SPDX-License-Identifier: MIT */

#include "transport/transport.h"
#include "verbs/next.h"

/* Notes why no send is accepted: the state, or no such queue (@qp: NULL). Return: EINVAL */
static int post_note_refusal(const struct av_qp *qp)
{
	bool there = qp && qp->send_cq && !av_context_of(qp->ibv.context)->forked;
	uint32_t state = there ? atomic_load(&qp->end.qp->state) : 0;
	int err = av_refuse(EINVAL, there ? AV_CHECK_POST_SEND_STATE : AV_CHECK_POST_OBJECT, state,
			    0);

	if (there)
		av_diag_state(state);
	return err;
}

static int refuse_post(enum av_verb verb, const struct ibv_qp *ibv, int err)
{
	av_refuse_object(err, AV_OBJECT_QP, ibv->qp_num);
	return av_fail_errno(verb, err);
}

/* The queue pair of an unusual context for a post. NULL: the post fails with @err */
AV_COLD static struct av_qp *find_unusual_qp(struct ibv_qp *ibv, enum av_verb verb, int *err)
{
	struct av_qp *qp = av_qp_find(ibv);

	*err = qp ? av_post_injected(av_context_of(ibv->context), verb, ibv->qp_num)
		  : post_note_refusal(NULL);
	if (!*err)
		return qp;
	(void)refuse_post(verb, ibv, *err);
	return NULL;
}

/* How a thread gets to post. */
enum entry {
	REFUSED,  /* it may not: there is no such queue pair, or its state forbids it */
	APPENDS,  /* @append is held */
	EXECUTES, /* @append and @req_lock are held */
};

static enum entry lock_sq_for_post(struct av_qp *qp)
{
	struct av_qp_shared *q;
	enum entry entry;
	uint32_t state;

	if (av_unlikely(!qp || !qp->send_cq))
		return REFUSED;
	q = qp->end.qp;
	entry = av_likely(av_lock_try_both(&q->req_lock, AV_RANK_REQUESTER, AV_RANK_APPEND))
			? EXECUTES
			: APPENDS;
	if (entry == APPENDS)
		av_lock_acquire_plain(&q->append, AV_RANK_APPEND);
	/* Now, not earlier: a thread that empties the queue holds one of the two. */
	state = atomic_load_explicit(&q->state, memory_order_relaxed);
	if (av_likely(state != IBV_QPS_RESET && state != IBV_QPS_INIT && state != IBV_QPS_RTR))
		return entry;
	av_lock_release(&q->append);
	av_sq_progress_entered(&qp->end, &qp->peer, entry == EXECUTES);
	return REFUSED;
}

int av_post_special(struct av_qp *qp, const struct av_sq_special *req)
{
	enum entry entry = av_context_of(qp->ibv.context)->forked ? REFUSED : lock_sq_for_post(qp);
	int err;

	if (entry == REFUSED)
		return post_note_refusal(qp);
	err = av_sq_post_special(&qp->end, req);
	av_lock_release(&qp->end.qp->append);
	av_sq_progress_entered(&qp->end, &qp->peer, entry == EXECUTES);
	return err;
}

int av_post_translated(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands)
{
	struct av_qp *qp = av_qp_usable(ibv);
	enum entry entry;
	int err;

	if (av_unlikely(!qp) && !(qp = find_unusual_qp(ibv, AV_VERB_POST_SEND, &err))) {
		*bad_wr = wr;
		return err;
	}
	entry = lock_sq_for_post(qp);
	if (av_unlikely(entry == REFUSED)) {
		*bad_wr = wr;
		return refuse_post(AV_VERB_POST_SEND, ibv, post_note_refusal(qp));
	}
	err = av_sq_post(&qp->end, wr, bad_wr, av_ah_attr, operands);
	av_lock_release(&qp->end.qp->append);
	if (av_unlikely(err))
		(void)refuse_post(AV_VERB_POST_SEND, ibv, err);
	av_sq_progress_entered(&qp->end, &qp->peer, entry == EXECUTES);
	return av_unlikely(err) ? errno = err : 0;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return av_post_translated(ibv, wr, bad_wr, NULL);
}

/* Posts one by one: nothing is posted behind a request that the named adapter lacks. */
static int post_send_named(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	const struct av_device *dev = av_context_of(ibv->context)->dev;
	int err = 0;

	for (; wr && err == 0; wr = wr->next) {
		struct ibv_send_wr one = *wr;

		one.next = NULL;
		*bad_wr = wr;
		err = av_model_check_request(dev, wr->opcode, wr->num_sge);
		if (err) {
			(void)refuse_post(AV_VERB_POST_SEND, ibv, err);
			return dev->as->no_opcode_ret;
		}
		err = av_post_translated(ibv, &one, &(struct ibv_send_wr *){NULL}, NULL);
	}
	return err;
}

/* Wakes a requester that waits for the receive. Flushes it if the queue pair has failed. */
static void after_post_recv(struct av_qp *qp)
{
	if (av_unlikely(atomic_load_explicit(&qp->rq->waiting, memory_order_relaxed)))
		av_rnr_posted(&qp->end, qp->rq);
	if (av_unlikely(atomic_load_explicit(&qp->end.qp->state, memory_order_relaxed) ==
			IBV_QPS_ERR))
		av_deferred_flush(&qp->end);
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct av_qp *qp = av_qp_usable(ibv);
	int err;

	if (av_unlikely(!qp) && !(qp = find_unusual_qp(ibv, AV_VERB_POST_RECV, &err))) {
		*bad_wr = wr;
		return err;
	}
	if (av_unlikely(qp->srq || !qp->recv_cq)) {
		*bad_wr = wr;
		err = av_refuse(EINVAL, qp->srq ? AV_CHECK_POST_RECV_SRQ : AV_CHECK_POST_OBJECT, 0,
				0);
		return refuse_post(AV_VERB_POST_RECV, ibv, err);
	}
	err = av_rq_post(qp->end.seg, qp->rq, &qp->end.qp->state, wr, bad_wr);
	if (av_unlikely(err))
		(void)refuse_post(AV_VERB_POST_RECV, ibv, err);
	after_post_recv(qp);
	return av_unlikely(err) ? errno = err : 0;
}

/* A poll of an unusual context's CQ. Return: as ibv_poll_cq() */
AV_COLD static int poll_unusual_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_cq *cq = av_cq_find(ibv);
	int err = cq ? av_post_injected(ctx, AV_VERB_POLL_CQ, 0)
		     : av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0);

	if (!cq || err)
		return -av_fail_errno(AV_VERB_POLL_CQ, err);
	return av_poll(ctx->seg, cq->shared, count, wc, NULL);
}

static int poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct av_cq *cq = av_cq_usable(ibv);

	if (av_unlikely(!cq))
		return poll_unusual_cq(ibv, count, wc);
	return av_poll(av_container_of(ibv->context, struct av_context, verbs.context)->seg,
		       cq->shared, count, wc, NULL);
}

/*
 * Builders write requests into the ring, behind the posted ones. ibv_wr_complete() publishes all at
 * once. The thread holds @append from ibv_wr_start() until then, or until ibv_wr_abort().
 */

/* The builders that a service has: enum ibv_qp_create_send_ops_flags. */
static uint64_t operations(const struct av_model *as, enum ibv_qp_type type)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < AV_WR_OPCODES; i++)
		if (av_wr_opcode_is_of(&av_wr_opcodes[i], type) && av_model_has_opcode(as, i))
			found |= av_wr_opcodes[i].builder;
	return found;
}

static struct av_qp *qp_of(struct ibv_qp_ex *ex)
{
	return av_container_of(ex, struct av_qp, ex);
}

/* ibv_wr_complete() reports the first error. */
static void record_build_error(struct av_qp *qp, int err, enum av_check check, uint64_t wanted,
			       uint64_t limit)
{
	if (!qp->build.err) {
		qp->build.err = err;
		qp->build.check = check;
		qp->build.wanted = wanted;
		qp->build.limit = limit;
	}
	qp->build.wqe = NULL;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct av_qp *qp = qp_of(ex);

	if (av_context_of(ex->qp_base.context)->forked) {
		record_build_error(qp, EINVAL, AV_CHECK_POST_OBJECT, 0, 0);
		return; /* the ring is the parent's */
	}
	/* Nobody else posts until wr_complete() or wr_abort(). @build is ours from here on. */
	av_lock_acquire_plain(&qp->end.qp->append, AV_RANK_APPEND);
	qp->build.wqe = NULL;
	qp->build.err = 0;
	qp->build.tail = atomic_load_explicit(&qp->end.qp->sq_tail, memory_order_relaxed);
}

/* Begins the next request. @imm: also the rkey to invalidate. NULL: an error, or a full queue */
static struct av_sq_wqe *begin_next_wqe(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t rkey,
					uint64_t addr, uint32_t imm)
{
	struct av_qp *qp = qp_of(ex);
	const uint32_t capacity = qp->end.qp->sq_capacity;
	struct av_sq_wqe *wqe;

	if (qp->build.err)
		return NULL;
	wqe = av_sq_slot(&qp->end, qp->build.tail);
	if (!wqe ||
	    qp->build.tail - atomic_load_explicit(&qp->end.qp->sq_freed, memory_order_acquire) >=
		    capacity) {
		record_build_error(qp, ENOMEM, AV_CHECK_POST_SEND_FULL, capacity, capacity);
		return NULL;
	}
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = ex->wr_id;
	wqe->flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	wqe->opcode = opcode;
	wqe->rkey = rkey;
	wqe->remote_addr = addr;
	wqe->imm = imm;
	qp->build.tail++;
	qp->build.wqe = wqe;
	return wqe;
}

/* Defines a builder that needs no more than that. */
#define BUILD(name, params, opcode, rkey, addr, imm)               \
	static void name params                                    \
	{                                                          \
		(void)begin_next_wqe(ex, opcode, rkey, addr, imm); \
	}

BUILD(wr_rdma_write, (struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr), IBV_WR_RDMA_WRITE, rkey,
      addr, 0)
BUILD(wr_rdma_write_imm, (struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr, __be32 imm),
      IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm)
BUILD(wr_rdma_read, (struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr), IBV_WR_RDMA_READ, rkey,
      addr, 0)
BUILD(wr_send, (struct ibv_qp_ex * ex), IBV_WR_SEND, 0, 0, 0)
BUILD(wr_send_imm, (struct ibv_qp_ex * ex, __be32 imm), IBV_WR_SEND_WITH_IMM, 0, 0, imm)
BUILD(wr_send_inv, (struct ibv_qp_ex * ex, uint32_t rkey), IBV_WR_SEND_WITH_INV, 0, 0, rkey)
BUILD(wr_local_inv, (struct ibv_qp_ex * ex, uint32_t rkey), IBV_WR_LOCAL_INV, 0, 0, rkey)

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct av_sq_wqe *wqe = begin_next_wqe(ex, IBV_WR_BIND_MW, 0, 0, 0);

	if (wqe && mw)
		av_sq_fill_bind(wqe, mw, rkey, info);
	else if (wqe)
		record_build_error(qp_of(ex), EINVAL, AV_CHECK_BIND_WINDOW, 0, 0);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct av_sq_wqe *wqe = begin_next_wqe(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, 0);

	if (!wqe)
		return;
	wqe->compare_add = compare;
	wqe->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct av_sq_wqe *wqe = begin_next_wqe(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, 0);

	if (wqe)
		wqe->compare_add = add;
}

/* The word is in the request itself. It needs no elements, and no room for inline data. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *word)
{
	struct av_sq_wqe *wqe = begin_next_wqe(ex, AV_WR_ATOMIC_WRITE, rkey, addr, 0);

	if (!wqe)
		return;
	wqe->flags |= IBV_SEND_INLINE;
	wqe->bytes = sizeof(uint64_t);
	memcpy(wqe->data, word, sizeof(uint64_t));
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t length,
		     uint8_t type, uint8_t level)
{
	struct av_sq_wqe *wqe = begin_next_wqe(ex, AV_WR_FLUSH, rkey, addr, 0);

	if (!wqe)
		return;
	if (!type || (type & ~(AV_FLUSH_GLOBAL | AV_FLUSH_PERSISTENT)) || level > AV_FLUSH_MR) {
		record_build_error(qp_of(ex), EINVAL, AV_CHECK_POST_FLUSH, type, level);
		return;
	}
	wqe->compare_add = length;
	wqe->placement = type;
	wqe->selectivity = level;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct av_qp *qp = qp_of(ex);
	const struct ibv_ah_attr *attr = av_ah_attr(ah);

	if (!qp->build.wqe)
		return;
	if (attr)
		av_sq_fill_ud(qp->build.wqe, attr, qpn, qkey);
	else
		record_build_error(qp, EINVAL, AV_CHECK_POST_AH, 0, 0);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct av_sq_wqe *wqe = qp_of(ex)->build.wqe;

	if (wqe)
		wqe->srqn = srqn;
}

/* Does the builder take the data, or is there none? */
static bool has_no_list(uint32_t opcode)
{
	return opcode == AV_WR_ATOMIC_WRITE || opcode == AV_WR_FLUSH;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *sge)
{
	struct av_qp *qp = qp_of(ex);
	struct av_sq_wqe *wqe = qp->build.wqe;

	if (!wqe)
		return;
	if (has_no_list(wqe->opcode))
		record_build_error(qp, EINVAL, AV_CHECK_POST_NO_LIST, wqe->opcode, 0);
	else if (count > qp->end.qp->sq_max_sge)
		record_build_error(qp, EINVAL, AV_CHECK_POST_SEND_SGE, count,
				   qp->end.qp->sq_max_sge);
	else if (AV_LIST_MISSING(count, sge))
		record_build_error(qp, EINVAL, AV_CHECK_POST_SEND_LIST, count, 0);
	if (qp->build.err)
		return;
	wqe->bytes = 0;
	wqe->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		wqe->sge[i] = sge[i];
		wqe->bytes += sge[i].length;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
				    const struct ibv_data_buf *buf)
{
	struct av_qp *qp = qp_of(ex);
	struct av_sq_wqe *wqe = qp->build.wqe;

	if (!wqe)
		return;
	wqe->bytes = 0;
	wqe->count = 0;
	wqe->flags |= IBV_SEND_INLINE;
	if (count && (has_no_list(wqe->opcode) || !av_wr_opcode(wqe->opcode)->may_inline))
		record_build_error(qp, EINVAL, AV_CHECK_POST_INLINE_OP, wqe->opcode, 0);
	else if (AV_LIST_MISSING(count, buf))
		record_build_error(qp, EINVAL, AV_CHECK_POST_SEND_LIST, count, 0);
	for (size_t i = 0; i < count && !qp->build.err; i++) {
		if (buf[i].length > qp->end.qp->max_inline - wqe->bytes) {
			record_build_error(qp, EINVAL, AV_CHECK_POST_INLINE,
					   wqe->bytes + buf[i].length, qp->end.qp->max_inline);
			return;
		}
		memcpy(wqe->data + wqe->bytes, buf[i].addr, buf[i].length);
		wqe->bytes += buf[i].length;
	}
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct av_qp *qp = qp_of(ex);
	uint32_t state = atomic_load_explicit(&qp->end.qp->state, memory_order_relaxed);
	struct av_context *ctx = av_context_of(ex->qp_base.context);
	int err = qp->build.err;

	if (err)
		(void)av_refuse(err, qp->build.check, qp->build.wanted, qp->build.limit);
	if (av_unlikely(av_is_unusual(ctx))) {
		if (ctx->forked)
			return refuse_post(AV_VERB_WR_COMPLETE, &qp->ibv, post_note_refusal(qp));
		if (!err)
			err = av_verb_injected(ctx, AV_VERB_WR_COMPLETE, qp->ibv.qp_num, 0);
	}
	if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR)
		err = post_note_refusal(qp);
	qp->build.wqe = NULL;
	if (!err) /* before trying for the queue pair lock: see av_sq_progress() */
		av_publish_before_try(&qp->end.qp->sq_tail, qp->build.tail);
	av_lock_release(&qp->end.qp->append);
	if (err)
		return refuse_post(AV_VERB_WR_COMPLETE, &qp->ibv, err);
	av_sq_progress(&qp->end, &qp->peer);
	return 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	qp_of(ex)->build.wqe = NULL;
	if (!av_context_of(ex->qp_base.context)->forked)
		av_lock_release(&qp_of(ex)->end.qp->append);
}

/* A builder that the program did not ask for stays NULL: ibv_create_qp_ex(3). */
static void fill_builders(struct av_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ex = &qp->ex;

#define BUILDER(flag, member, function) (ex->member = ops & (flag) ? (function) : NULL)
	BUILDER(IBV_QP_EX_WITH_RDMA_WRITE, wr_rdma_write, wr_rdma_write);
	BUILDER(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm, wr_rdma_write_imm);
	BUILDER(IBV_QP_EX_WITH_SEND, wr_send, wr_send);
	BUILDER(IBV_QP_EX_WITH_SEND_WITH_IMM, wr_send_imm, wr_send_imm);
	BUILDER(IBV_QP_EX_WITH_SEND_WITH_INV, wr_send_inv, wr_send_inv);
	BUILDER(IBV_QP_EX_WITH_LOCAL_INV, wr_local_inv, wr_local_inv);
	BUILDER(IBV_QP_EX_WITH_BIND_MW, wr_bind_mw, wr_bind_mw);
	BUILDER(IBV_QP_EX_WITH_RDMA_READ, wr_rdma_read, wr_rdma_read);
	BUILDER(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp, wr_atomic_cmp_swp);
	BUILDER(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add, wr_atomic_fetch_add);
#undef BUILDER
	qp->newer.wr_atomic_write = ops & AV_QP_EX_WITH_ATOMIC_WRITE ? wr_atomic_write : NULL;
	qp->newer.wr_flush = ops & AV_QP_EX_WITH_FLUSH ? wr_flush : NULL;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

static int check_qp_init_attr_ex(const struct ibv_context *context,
				 const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, mask = attr->comp_mask;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint64_t builders = operations(av_context_of(context)->dev->as, attr->qp_type);

	if (mask & ~known)
		return av_refuse(EOPNOTSUPP, AV_CHECK_QP_MASK, mask, known);
	if (!(mask &
	      (attr->qp_type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD)))
		return av_refuse(EINVAL, AV_CHECK_QP_MASK, mask, known);
	if ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && (attr->create_flags & ~flags))
		return av_refuse(EOPNOTSUPP, AV_CHECK_QP_CREATE_FLAGS, attr->create_flags, flags);
	if ((mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && (attr->send_ops_flags & ~builders))
		return av_refuse(EOPNOTSUPP, AV_CHECK_QP_SEND_OPS, attr->send_ops_flags, builders);
	if ((mask & IBV_QP_INIT_ATTR_PD) && attr->pd && attr->pd->context != context)
		return av_refuse(EINVAL, AV_CHECK_PD_UNKNOWN, 0, 0);
	if ((mask & IBV_QP_INIT_ATTR_XRCD) && attr->xrcd && attr->xrcd->context != context)
		return av_refuse(EINVAL, AV_CHECK_QP_XRCD, 0, 0);
	return 0;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	AV_BEGIN(av_fail_null, CREATE_QP_EX, context);
	const uint32_t mask = attr->comp_mask;
	struct av_qp_extra extra = {
		.blocks_loopback = (mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
				   (attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB),
	};
	struct ibv_qp *ibv;
	struct av_qp *qp;
	int err = check_qp_init_attr_ex(context, attr);

	if (err)
		return av_fail_null(AV_VERB_CREATE_QP_EX, err);
	/* The first members are those of struct ibv_qp_init_attr. */
	ibv = av_qp_create(av_context_of(context), mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL,
			   mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL,
			   (struct ibv_qp_init_attr *)attr, &extra);
	if (!ibv)
		return NULL;
	qp = av_container_of(ibv, struct av_qp, ibv);
	qp->made_at = __builtin_return_address(0);
	qp->extended = mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (qp->extended)
		fill_builders(qp, attr->send_ops_flags);
	return ibv;
}

void av_qp_fill_ops(struct verbs_context *verbs)
{
	const struct av_context *ctx = av_container_of(verbs, struct av_context, verbs);

	verbs->create_qp_ex = create_qp_ex;
	verbs->open_qp = av_open_qp;
	verbs->context.ops.post_send = ctx->dev->as ? post_send_named : post_send;
	verbs->context.ops.poll_cq = poll_cq;
	verbs->context.ops.post_recv = post_recv;
}
