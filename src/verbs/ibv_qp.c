/* SPDX-License-Identifier: MIT */
#include "observe/freedom.h"
#include "transport/transport.h"
#include "verbs/misuse.h"

/* --- creating -------------------------------------------------------------------- */

static int check_type(const struct av_device *dev, enum ibv_qp_type type)
{
	int err = av_model_check_type(dev, type);

	if (err)
		return err;
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return 0;
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_DRIVER:
		return av_refuse(EOPNOTSUPP, AV_CHECK_QP_TYPE_LACKING, (uint64_t)type, 0);
	default:
		return av_refuse(EINVAL, AV_CHECK_QP_TYPE, (uint64_t)(int)type, 0);
	}
}

static bool receives(enum ibv_qp_type type)
{
	return type != IBV_QPT_XRC_SEND && type != IBV_QPT_XRC_RECV;
}

/* Ignores the capacities of queues that it does not have: programs leave garbage there. */
static void drop_ignored(struct ibv_qp_init_attr *attr)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		attr->cap.max_send_wr = attr->cap.max_send_sge = attr->cap.max_inline_data = 0;
	if (!receives(attr->qp_type) || attr->srq)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
}

static int check_cap(const struct av_device *dev, const struct ibv_qp_cap *cap)
{
	const struct {
		uint32_t wanted, limit;
		enum av_check check;
	} rule[] = {
		{cap->max_send_wr, (uint32_t)dev->attr.max_qp_wr, AV_CHECK_QP_SEND_WR},
		{cap->max_recv_wr, (uint32_t)dev->attr.max_qp_wr, AV_CHECK_QP_RECV_WR},
		{cap->max_send_sge, dev->max_send_sge, AV_CHECK_QP_SEND_SGE},
		{cap->max_recv_sge, (uint32_t)dev->attr.max_sge, AV_CHECK_QP_RECV_SGE},
		{cap->max_inline_data, dev->max_inline, AV_CHECK_QP_INLINE},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rule); i++)
		if (rule[i].wanted > rule[i].limit)
			return av_refuse(EINVAL, rule[i].check, rule[i].wanted, rule[i].limit);
	return 0;
}

/* Finds our objects of those that a new queue pair names. Return: 0, ENOENT or EINVAL */
static int find_qp_objects(const struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			   const struct ibv_qp_init_attr *attr, struct av_qp *qp)
{
	const struct ibv_context *context = &ctx->verbs.context;

	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		qp->xrcd = av_xrcd_find(ctx, xrcd);
		return qp->xrcd ? 0 : av_refuse(EINVAL, AV_CHECK_QP_XRCD, 0, 0);
	}
	qp->pd = av_pd_in(context, pd);
	qp->send_cq = av_cq_in(context, attr->send_cq);
	if (!qp->pd)
		return ENOENT;
	if (!qp->send_cq)
		return av_refuse(EINVAL, AV_CHECK_QP_SEND_CQ, 0, 0);
	if (!receives(attr->qp_type))
		return 0;
	qp->recv_cq = av_cq_in(context, attr->recv_cq);
	qp->srq = av_srq_in(context, attr->srq);
	if (!qp->recv_cq)
		return av_refuse(EINVAL, AV_CHECK_QP_RECV_CQ, 0, 0);
	return attr->srq && (!qp->srq || qp->srq->xrcd) ? av_refuse(EINVAL, AV_CHECK_QP_SRQ, 0, 0)
							: 0;
}

/* A forked child leaves the list alone: it may be half changed, and its mutex taken for ever. */
static void count_srq_use(struct av_qp *qp, int by)
{
	struct av_srq *srq = qp->srq;

	if (by > 0 || !av_context_of(qp->ibv.context)->forked) {
		AV_LOCKED(&srq->users_mutex);
		if (by > 0)
			LIST_INSERT_HEAD(&srq->users, qp, on_srq);
		else
			LIST_REMOVE(qp, on_srq);
	}
	atomic_fetch_add(&srq->user_count, (uint32_t)by); /* last: the SRQ may end then */
}

/* Add (@by: 1) or drop (-1) references to the objects that a queue pair uses. */
static void count_qp_refs(struct av_qp *qp, int by)
{
	if (qp->pd)
		av_pd_count(qp->pd, AV_PD_QP, by);
	if (qp->xrcd)
		atomic_fetch_add(&qp->xrcd->users, (uint32_t)by);
	if (qp->send_cq)
		atomic_fetch_add(&qp->send_cq->users, (uint32_t)by);
	if (qp->recv_cq)
		atomic_fetch_add(&qp->recv_cq->users, (uint32_t)by);
	if (qp->srq)
		count_srq_use(qp, by);
}

static void init_public_qp(struct av_context *ctx, struct av_qp *qp, struct ibv_pd *pd,
			   const struct ibv_qp_init_attr *attr, uint32_t index)
{
	struct ibv_qp *ibv = &qp->ibv;

	ibv->context = &ctx->verbs.context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = pd;
	ibv->send_cq = qp->send_cq ? attr->send_cq : NULL;
	ibv->recv_cq = qp->recv_cq ? attr->recv_cq : NULL;
	ibv->srq = qp->srq ? attr->srq : NULL;
	ibv->handle = index;
	ibv->qp_num = atomic_load(&qp->end.qp->qpn);
	ibv->state = IBV_QPS_RESET;
	ibv->qp_type = attr->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	pthread_mutex_init(&qp->changes_mutex, NULL);
}

/*
 * Grants inline receive as far as there is room: in the completion, in slots of the own receive
 * queue, and in bounce buffers. XRC receives into queues that do not know its queue pairs.
 */
static uint32_t grant_inline(const struct av_qp *qp, const struct ibv_qp_init_attr *attr,
			     uint32_t wanted)
{
	uint32_t room = 0;

	if (receives(attr->qp_type))
		room = AV_MAX_INLINE_RECV;
	else if (attr->qp_type == IBV_QPT_XRC_SEND && attr->sq_sig_all)
		room = AV_CQE_DATA; /* responses only */
	return wanted < room ? wanted : room;
}

static struct av_page_policy pages_of(const struct av_context *ctx, enum ibv_qp_type type)
{
	struct av_page_object object = {.name = "QP", .fallback = AV_ALLOC_PREFER_CONTIG};

	if (type == IBV_QPT_RC)
		object.huge_variable = "HUGE_RC";
	else if (type == IBV_QPT_UC)
		object.huge_variable = "HUGE_UC";
	else if (type == IBV_QPT_UD)
		object.huge_variable = "HUGE_UD";
	return av_environment_pages(ctx, &object);
}

static uint32_t fill_shared_qp(struct av_context *ctx, struct av_qp *qp,
			       const struct ibv_qp_init_attr *attr, const struct av_qp_extra *extra)
{
	struct av_qp_request req = {
		.type = attr->qp_type,
		.pd = qp->pd ? av_pd_id(qp->pd) : 0,
		.send_cq = qp->send_cq ? qp->send_cq->ibv.handle : 0,
		.recv_cq = qp->recv_cq ? qp->recv_cq->ibv.handle : 0,
		.sig_all = attr->sq_sig_all != 0,
		.srq = qp->srq ? qp->srq->index : 0,
		.xrcd = qp->xrcd ? qp->xrcd->number : 0,
		.inline_recv = extra->inline_recv,
		.max_operand = extra->max_operand,
		.blocks_loopback = extra->blocks_loopback,
		.cap = attr->cap,
		.limit = (uint32_t)ctx->dev->attr.max_qp,
	};
	struct av_page_policy policy = pages_of(ctx, attr->qp_type);
	uint32_t index;

	req.policy = &policy;
	index = av_qp_init(ctx->seg, &req);
	if (!index)
		return 0;
	qp->end.seg = ctx->seg;
	qp->end.qp = av_qp_at(ctx->seg, index);
	qp->rq = av_rq_at(ctx->seg, qp->end.qp->rq);
	return index;
}

struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			    struct ibv_qp_init_attr *attr, struct av_qp_extra *extra)
{
	const struct av_device *dev = ctx->dev;
	struct av_qp_extra none = {0};
	int err = check_type(dev, attr->qp_type);
	struct ibv_qp_init_attr asked = *attr;
	struct av_qp *qp, found = {.pd = NULL};
	uint32_t index;

	drop_ignored(&asked);
	if (err == 0)
		err = check_cap(dev, &asked.cap);
	if (err == 0)
		err = find_qp_objects(ctx, pd, xrcd, &asked, &found);
	if (err == 0)
		err = av_verb_err(ctx, AV_VERB_CREATE_QP);
	qp = av_object_new(AV_VERB_CREATE_QP, err, sizeof(*qp));
	if (!qp)
		return NULL;
	*qp = found;
	if (!(ctx->seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_LIMITS)))
		av_qp_round_cap(&asked.cap, (uint32_t)dev->attr.max_qp_wr);
	if (asked.cap.max_inline_data > dev->max_inline) /* rounded up */
		asked.cap.max_inline_data = dev->max_inline;
	extra = extra ? extra : &none;
	extra->inline_recv = grant_inline(qp, attr, extra->inline_recv);
	index = fill_shared_qp(ctx, qp, &asked, extra);
	if (!index || av_table_set(&ctx->qps, index, qp)) {
		if (index)
			av_qp_fini(ctx->seg, index);
		return av_object_fail(AV_VERB_CREATE_QP, qp, ENOMEM);
	}
	attr->cap = asked.cap;
	count_qp_refs(qp, 1);
	init_public_qp(ctx, qp, pd, attr, index);
	av_overcome(AV_VERB_CREATE_QP); /* no query tells the largest max_inline_data */
	return &qp->ibv;
}

AV_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	AV_OURS_OR_NEXT(av_fail_null, CREATE_QP, ibv_create_qp, "IBVERBS_1.1", pd, attr);
	return AV_MADE_HERE(struct av_qp,
			    av_qp_create(av_context_of(pd->context), pd, NULL, attr, NULL));
}

/* Waits for executors of other processes. RESET empties the queues and purges the CQs. */
static int reset_qp(struct av_qp *qp)
{
	int err;

	(void)!av_net_in_turn(NULL, NULL, false); /* acknowledge what has come */
	err = av_qp_quiesce(&qp->end);
	if (err)
		return err;
	av_qp_leave_behind(&qp->end);
	av_qp_apply_state(&qp->end, (enum ibv_qp_state)atomic_load(&qp->end.qp->state),
			  IBV_QPS_RESET);
	av_disconnect(&qp->peer);
	av_qp_resume(&qp->end);
	av_wire_close(&qp->end);
	return 0;
}

AV_EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DESTROY_QP, ibv_destroy_qp, "IBVERBS_1.1", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DESTROY_QP, ibv->context, ibv->qp_num, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_qp *qp = av_qp_find(ibv);
	int err = 0;

	if (!qp)
		return av_fail_errno(AV_VERB_DESTROY_QP, ENOENT);
	if (atomic_load(&qp->groups) && !ctx->forked) { /* a child cannot detach it */
		(void)av_refuse(EBUSY, AV_CHECK_GROUP_BUSY, atomic_load(&qp->groups), 0);
		return av_misuse_busy(AV_VERB_DESTROY_QP, AV_MISUSE_OF("QP", qp, qp->ibv.qp_num));
	}
	av_misuse_ends(AV_MISUSE_OF("QP", qp, qp->ibv.qp_num), qp);
	if (!qp->opened && !ctx->forked)
		err = reset_qp(qp);
	if (err)
		return av_fail_errno(AV_VERB_DESTROY_QP, err);
	av_unlist(ctx, &ctx->qps, ibv->handle);
	if (qp->opened) {
		av_seg_put(qp->end.seg);
	} else if (!ctx->forked) {
		av_event_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async_delivered,
			      AV_MISUSE_OF("QP", qp, qp->ibv.qp_num));
		av_mw_queue_pair_ends(ctx, &qp->end);
		av_qp_fini(qp->end.seg, qp->end.qp->index);
	}
	count_qp_refs(qp, -1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&qp->changes_mutex);
	free(qp);
	return 0;
}

/* Context: both queue pair locks held */
static void fill_qp_attr(struct av_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state state = (enum ibv_qp_state)atomic_load(&qp->end.qp->state);

	*attr = qp->end.qp->attr;
	attr->qp_state = attr->cur_qp_state = state;
	attr->sq_draining =
		state == IBV_QPS_SQD && atomic_load(&qp->end.qp->wait_reason) != AV_WAIT_NONE;
	if (mask & IBV_QP_STATE)
		qp->ibv.state = state;
}

/* Return: 0; EBUSY; EINVAL: ibv_open_qp() made it, and its creator has destroyed it since */
static int read_attr(struct av_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = av_qp_quiesce(&qp->end); /* no half-changed values */

	if (err)
		return err;
	if (atomic_load(&qp->end.qp->qpn) == qp->ibv.qp_num)
		fill_qp_attr(qp, attr, mask);
	else
		err = av_refuse(EINVAL, AV_CHECK_QP_ENDED, 0, 0);
	av_qp_resume(&qp->end);
	av_sq_progress(&qp->end, &qp->peer); /* execute what was posted while we held the rights */
	return err;
}

AV_EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask,
			   struct ibv_qp_init_attr *init)
{
	AV_OURS_OR_NEXT(av_fail_errno, QUERY_QP, ibv_query_qp, "IBVERBS_1.1", ibv, attr, attr_mask,
			init);
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_QP, ibv->context, ibv->qp_num, 0);
	struct av_qp *qp = av_qp_find(ibv);
	int err = qp ? av_context_err(av_context_of(ibv->context)) : ENOENT;

	if (err == 0)
		err = read_attr(qp, attr, attr_mask);
	if (err)
		return av_fail_errno(AV_VERB_QUERY_QP, err);
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context,
		.send_cq = ibv->send_cq,
		.recv_cq = ibv->recv_cq,
		.srq = ibv->srq,
		.cap = qp->end.qp->attr.cap,
		.qp_type = ibv->qp_type,
		.sq_sig_all = (int)qp->end.qp->sig_all,
	};
	return 0;
}

AV_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	AV_PASS_ON(ibv->context, ibv_qp_to_qp_ex, "IBVERBS_1.6", ibv);
	struct av_qp *qp = av_qp_find(ibv);

	return qp && qp->extended ? &qp->ex : NULL;
}

AV_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	AV_PASS_ON(qp->context, ibv_query_qp_data_in_order, "IBVERBS_1.14", qp, op, flags);
	return 0;
}

/* Makes another handle for an XRC_RECV queue pair, whose shared half ends with its creator's. */
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_null, OPEN_QP, context, 0, 0);
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct av_context *ctx = av_context_of(context);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_XRC_RECV};
	struct av_xrcd *xrcd = NULL;
	struct av_qp *qp;
	uint32_t handle = 0;
	int err = 0;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		err = av_refuse(EOPNOTSUPP, AV_CHECK_COMP_MASK, attr->comp_mask,
				IBV_QP_OPEN_ATTR_RESERVED - 1);
	else if ((attr->comp_mask & needed) != needed)
		err = av_refuse(EINVAL, AV_CHECK_COMP_MASK_LACKS, attr->comp_mask, needed);
	else if (attr->qp_type != IBV_QPT_XRC_RECV)
		err = av_refuse(EINVAL, AV_CHECK_QP_OPEN_TYPE, (uint64_t)attr->qp_type, 0);
	else if (!(xrcd = av_xrcd_find(ctx, attr->xrcd)))
		err = av_refuse(EINVAL, AV_CHECK_QP_XRCD, 0, 0);
	qp = av_object_new(AV_VERB_OPEN_QP, err, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->opened = true;
	qp->xrcd = xrcd;
	qp->end = av_qp_get(attr->qp_num);
	if (!qp->end.qp || atomic_load(&qp->end.qp->qpn) != attr->qp_num ||
	    qp->end.qp->xrcd != xrcd->number || qp->end.qp->type != IBV_QPT_XRC_RECV) {
		err = ENOENT;
	} else { /* with a handle beyond those of the segment's table */
		handle = AV_SLAB_CHUNKS * AV_OBJ_CHUNK +
			 (atomic_fetch_add(&ctx->opened, 1) & 0x7ffff);
		err = av_table_add(&ctx->qps, handle, qp) ? ENOMEM : 0;
	}
	if (err) {
		av_seg_put(qp->end.seg);
		return av_object_fail(AV_VERB_OPEN_QP, qp, err);
	}
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		init.qp_context = attr->qp_context;
	count_qp_refs(qp, 1);
	init_public_qp(ctx, qp, NULL, &init, handle);
	qp->ibv.state = (enum ibv_qp_state)atomic_load(&qp->end.qp->state);
	return &qp->ibv;
}

/* --- changing: check the values, then the state table, then apply --------------- */

/*
 * Checks the attributes in @mask. Accepts any value that store_qp_attr() cuts to its field's width,
 * and rights that mean nothing to a queue pair. Return: 0 or EINVAL. Source: ibv_modify_qp(3)
 */
static int check_values(const struct av_context *ctx, const struct ibv_qp_attr *attr, int mask)
{
	const struct av_device *dev = ctx->dev;
	const uint64_t rd = (uint64_t)dev->attr.max_qp_init_rd_atom,
		       dest_rd = (uint64_t)dev->attr.max_qp_rd_atom;
	const struct {
		int bit;
		enum av_check check;
		uint64_t wanted, first, last;
	} rule[] = {
		{IBV_QP_PORT, AV_CHECK_ATTR_PORT, attr->port_num, 1, 1},
		{IBV_QP_PKEY_INDEX, AV_CHECK_ATTR_PKEY, attr->pkey_index, 0, 0},
		{IBV_QP_ALT_PATH, AV_CHECK_ATTR_ALT_PATH, 1, 0, 0}, /* not advertised */
		{IBV_QP_PATH_MIG_STATE, AV_CHECK_ATTR_PATH_MIG, attr->path_mig_state,
		 IBV_MIG_MIGRATED, IBV_MIG_MIGRATED},
		{IBV_QP_PATH_MTU, AV_CHECK_ATTR_MTU, attr->path_mtu, IBV_MTU_256,
		 dev->port.max_mtu},
		{IBV_QP_MAX_QP_RD_ATOMIC, AV_CHECK_ATTR_RD_ATOMIC, attr->max_rd_atomic, 0, rd},
		{IBV_QP_MAX_DEST_RD_ATOMIC, AV_CHECK_ATTR_DEST_RD, attr->max_dest_rd_atomic, 0,
		 dest_rd},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rule); i++)
		if ((mask & rule[i].bit) &&
		    (rule[i].wanted < rule[i].first || rule[i].wanted > rule[i].last))
			return av_refuse(EINVAL, rule[i].check, rule[i].wanted, rule[i].last);
	return mask & IBV_QP_AV ? av_check_ah_attr(ctx, &attr->ah_attr) : 0;
}

/* Takes the low bits of a number that is wider than its field in packets, as adapters do. */
static void store_qp_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define STORE(bit, field)                        \
	do {                                     \
		if (mask & (bit))                \
			to->field = from->field; \
	} while (0)
	STORE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_QKEY, qkey);
	STORE(IBV_QP_AV, ah_attr);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_RQ_PSN, rq_psn);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_SQ_PSN, sq_psn);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
#undef STORE
	to->rq_psn &= AV_PSN_MASK;
	to->sq_psn &= AV_PSN_MASK;
	to->dest_qp_num &= AV_QPN_MASK;
	to->timeout &= 31;
	to->min_rnr_timer &= 31;
	to->retry_cnt &= 7;
	to->rnr_retry &= 7;
}

/* What a change needs beside its attributes, and what it leaves to do. */
struct change {
	struct av_wire_route route; /* to the new address, elsewhere; afterwards the old one */
	enum ibv_qp_state to;
	/* at RTR, within the host: the peer, which may have sent too early */
	struct av_qp_ref requester;
};

/* Context: both queue pair locks held. Return: 0, or EINVAL with nothing changed. */
static int apply_qp_change(struct av_qp *qp, const struct ibv_qp_attr *attr, int mask,
			   struct change *c)
{
	enum ibv_qp_state from = (enum ibv_qp_state)atomic_load(&qp->end.qp->state);
	int err = av_qp_check_modify(qp->ibv.qp_type, from, attr->cur_qp_state, attr->qp_state,
				     mask, &c->to);

	if (err)
		return err;
	store_qp_attr(&qp->end.qp->attr, attr, mask);
	if (!(mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)) /* must be requested each time */
		qp->end.qp->attr.en_sqd_async_notify = 0;
	av_wire_change_route(&qp->end, &c->route);
	if (mask & IBV_QP_STATE) {
		av_qp_apply_state(&qp->end, from, c->to);
		if ((from == IBV_QPS_INIT && c->to == IBV_QPS_RTR) ||
		    (from == IBV_QPS_RTR && c->to == IBV_QPS_RTS) || c->to == IBV_QPS_RESET)
			av_wire_begin(&qp->end, c->to);
		qp->ibv.state = c->to;
	}
	if (c->to == IBV_QPS_RESET || (mask & (IBV_QP_DEST_QPN | IBV_QP_AV)))
		av_disconnect(&qp->peer);
	if (c->to == IBV_QPS_RTR && !qp->end.qp->wire)
		av_connect(&qp->end, &c->requester);
	return 0;
}

/*
 * Opens the route of packets to a queue pair that enters RTR and has its peer on another host;
 * first ends what an earlier try (EBUSY) or connection left. Return: 0 or errno
 */
static int get_on_wire(struct av_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int err;

	if (!(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RTR ||
	    atomic_load(&qp->end.qp->state) != IBV_QPS_INIT || qp->opened)
		return 0;
	if (qp->ibv.qp_type == IBV_QPT_UD) {
		av_wire_open_datagrams(&qp->end);
		return 0;
	}
	err = av_wire_close(&qp->end);
	if (err == 0 && (mask & IBV_QP_AV) &&
	    av_wire_is_wanted(qp->end.seg, &attr->ah_attr, attr->dest_qp_num & AV_QPN_MASK))
		err = av_wire_open(&qp->end, attr);
	return err == EADDRINUSE ? av_refuse(err, AV_CHECK_PORT_TAKEN, AV_ROCE_PORT, 0) : err;
}

/* Opens the route to an address that changes while the queue pair is drained (SQD). */
static int get_route(struct av_qp *qp, const struct ibv_qp_attr *attr, int mask,
		     struct av_wire_route *route)
{
	if (!(mask & IBV_QP_AV) || atomic_load(&qp->end.qp->state) != IBV_QPS_SQD ||
	    !av_wire_is_connected(&qp->end))
		return 0;
	return av_wire_route_open(&qp->end, &attr->ah_attr, route);
}

/*
 * Keeps executors away, and also posters if the change empties the queue: it takes earlier
 * requests, and later ones are refused. Return: 0, or EBUSY: an executor or a poster is stopped, or
 * the program is between ibv_wr_start() and ibv_wr_complete()
 */
static int quiesce(struct av_qp *qp, bool empties)
{
	struct av_lock *append = &qp->end.qp->append;
	int err;

	if (empties)
		(void)!av_net_in_turn(NULL, NULL, false); /* acknowledge what has come */
	if (empties && av_lock_acquire_until(append, AV_RANK_APPEND,
					     av_now_ns() + AV_PEER_TIMEOUT_NS) == AV_LOCK_BUSY)
		return EBUSY;
	err = av_qp_quiesce(&qp->end);
	if (err && empties)
		av_lock_release(append);
	return err;
}

/* Context: @changes_mutex is held */
static int modify_qp(struct av_context *ctx, struct av_qp *qp, const struct ibv_qp_attr *attr,
		     int mask)
{
	bool empties = qp->send_cq && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	struct change c = {.to = IBV_QPS_RESET};
	int err = check_values(ctx, attr, mask);

	if (err == 0)
		err = get_on_wire(qp, attr, mask);
	if (err == 0)
		err = get_route(qp, attr, mask, &c.route);
	if (err == 0)
		err = quiesce(qp, empties);
	if (err) {
		av_wire_route_close(&c.route);
		return err;
	}
	if (atomic_load(&qp->end.qp->qpn) != qp->ibv.qp_num)
		err = av_refuse(EINVAL, AV_CHECK_QP_ENDED, 0, 0);
	else
		err = av_context_err(ctx); /* a failing device sets it, then takes the rights */
	if (err == 0)
		err = apply_qp_change(qp, attr, mask, &c);
	av_qp_resume(&qp->end);
	if (empties)
		av_lock_release(&qp->end.qp->append);
	av_wire_route_close(&c.route);
	if (atomic_load(&qp->end.qp->state) == IBV_QPS_RESET ||
	    atomic_load(&qp->end.qp->state) == IBV_QPS_INIT)
		av_wire_close(&qp->end);
	av_sq_progress(&qp->end, &qp->peer); /* and what was posted meanwhile */
	av_sq_progress_requester(&c.requester);
	av_disconnect(&c.requester);
	return err;
}

AV_EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
	AV_OURS_OR_NEXT(av_fail_errno, MODIFY_QP, ibv_modify_qp, "IBVERBS_1.1", ibv, attr,
			attr_mask);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_qp *qp = av_qp_find(ibv);
	int err;

	if (!qp)
		return av_fail_errno(AV_VERB_MODIFY_QP, ENOENT);
	err = av_context_err(ctx);
	if (err == 0)
		err = av_verb_injected(ctx, AV_VERB_MODIFY_QP, ibv->qp_num, 0);
	if (err == 0) {
		AV_LOCKED(&qp->changes_mutex);
		err = modify_qp(ctx, qp, attr, av_qp_own_mask(ibv->qp_type, attr_mask));
	}
	if (err == 0)
		return 0;
	av_refuse_object(err, AV_OBJECT_QP, ibv->qp_num);
	return av_fail_errno(AV_VERB_MODIFY_QP, err);
}
