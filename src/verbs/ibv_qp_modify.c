/* SPDX-License-Identifier: MIT */
/* ibv_modify_qp(): checks the values, then the state table, then applies the change. */
#include <errno.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/thread.h"
#include "queue/qp.h"
#include "transport/drive.h"
#include "transport/rules.h"
#include "transport/state.h"
#include "transport/wire.h"
#include "verbs/between.h"
#include "verbs/next.h"
#include "wire/frame.h"

/*
 * Are the values of the attributes in @mask valid? Return: 0 or EINVAL. ibv_modify_qp(3). Not here:
 * what store_qp_attr() cuts to its field's width, and rights that have no meaning for a queue pair.
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

/* Of numbers that are wider than their fields on the wire, an adapter takes the low bits. */
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

static void begin_state(struct av_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	av_qp_apply_state(&qp->end, from, to);
	if ((from == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
	    (from == IBV_QPS_RTR && to == IBV_QPS_RTS) || to == IBV_QPS_RESET)
		av_wire_begin(&qp->end, to);
}

/* What a change needs beside its attributes, and leaves to do. */
struct change {
	struct av_wire_way way; /* to another host, of the new address; then that of before */
	enum ibv_qp_state to;
	/* At RTR, within the host: it may have been sending too early. */
	struct av_qp_end requester;
};

/* Context: both execution rights held. Return: 0, or EINVAL with nothing changed. */
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
	av_wire_change_way(&qp->end, &c->way);
	if (mask & IBV_QP_STATE) {
		begin_state(qp, from, c->to);
		qp->ibv.state = c->to;
	}
	if (c->to == IBV_QPS_RESET || (mask & (IBV_QP_DEST_QPN | IBV_QP_AV)))
		av_disconnect(&qp->peer);
	if (c->to == IBV_QPS_RTR && !qp->end.qp->wire)
		av_connect(&qp->end, &c->requester);
	return 0;
}

static int open_wire(struct av_qp *qp, const struct ibv_qp_attr *attr)
{
	int err = av_wire_open(&qp->end, attr);

	return err == EADDRINUSE ? av_refuse(err, AV_CHECK_PORT_TAKEN, AV_ROCE_PORT, 0) : err;
}

/*
 * A queue pair that enters RTR, and whose peer is on another host, receives packets from then on. A
 * try before, or the end of the last connection, may have left a state: EBUSY was its outcome.
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
	if (err)
		return err;
	if ((mask & IBV_QP_AV) &&
	    av_wire_is_wanted(qp->end.seg, &attr->ah_attr, attr->dest_qp_num & AV_QPN_MASK))
		return open_wire(qp, attr);
	return 0;
}

/* The way of an address that is changed while the queue pair is drained (SQD). */
static int get_way(struct av_qp *qp, const struct ibv_qp_attr *attr, int mask,
		   struct av_wire_way *way)
{
	if (!(mask & IBV_QP_AV) || atomic_load(&qp->end.qp->state) != IBV_QPS_SQD ||
	    !av_wire_is_connected(&qp->end))
		return 0;
	return av_wire_way_open(&qp->end, &attr->ah_attr, way);
}

/*
 * Keep executors away, and posters from a queue that will be emptied: what was posted before is
 * emptied with the rest, and what comes later is refused. Return: 0, or EBUSY: an executor or a
 * poster is stopped, or the program is between ibv_wr_start() and ibv_wr_complete()
 */
static int quiesce(struct av_qp *qp, bool empties)
{
	struct av_lock *append = &qp->end.qp->append;
	int err;

	if (empties && av_lock_acquire_until(append, AV_RANK_APPEND,
					     av_now_ns() + AV_PATIENCE_NS) == AV_LOCK_BUSY)
		return EBUSY;
	err = av_qp_quiesce(&qp->end);
	if (err && empties)
		av_lock_release(append);
	return err;
}

static void resume_modified_qp(struct av_qp *qp, bool empties)
{
	av_qp_resume(&qp->end);
	if (empties)
		av_lock_release(&qp->end.qp->append);
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
		err = get_way(qp, attr, mask, &c.way);
	if (err)
		return err;
	err = quiesce(qp, empties);
	if (err) {
		av_wire_way_close(&c.way);
		return err;
	}
	if (atomic_load(&qp->end.qp->qpn) != qp->ibv.qp_num)
		err = av_refuse(EINVAL, AV_CHECK_QP_ENDED, 0, 0);
	else
		err = av_context_err(ctx); /* a failing device sets it, then takes the rights */
	if (err == 0)
		err = apply_qp_change(qp, attr, mask, &c);
	resume_modified_qp(qp, empties);
	av_wire_way_close(&c.way);
	if (atomic_load(&qp->end.qp->state) == IBV_QPS_RESET ||
	    atomic_load(&qp->end.qp->state) == IBV_QPS_INIT)
		av_wire_close(&qp->end);
	av_drive(&qp->end, &qp->peer); /* and what was posted meanwhile */
	av_drive_requester(&c.requester);
	av_disconnect(&c.requester);
	return err;
}

AV_EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
	AV_UNCANCELLED;
	struct av_context *ctx;
	struct av_qp *qp;
	int err;

	AV_OURS_OR_NEXT(av_fail_errno, MODIFY_QP, ibv_modify_qp, "IBVERBS_1.1", ibv, attr,
			attr_mask);
	ctx = av_context_of(ibv->context);
	qp = av_qp_find(ibv);
	if (!qp)
		return av_fail_errno(AV_VERB_MODIFY_QP, ENOENT);
	err = av_verb_err(ctx, AV_FAIL_MODIFY_QP);
	if (err == 0) {
		pthread_mutex_lock(&qp->changes_mutex);
		err = modify_qp(ctx, qp, attr, av_qp_own_mask(ibv->qp_type, attr_mask));
		pthread_mutex_unlock(&qp->changes_mutex);
	}
	if (err == 0)
		return 0;
	av_refuse_object(err, AV_OBJECT_QP, ibv->qp_num);
	return av_fail_errno(AV_VERB_MODIFY_QP, err);
}
