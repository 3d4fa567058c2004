/* SPDX-License-Identifier: MIT */
/* ibv_modify_qp(): values, then the state table, then the effects. */
#include "base/newer_verbs.h"
#include "front/ah.h"
#include "front/context.h"
#include "hca/limits.h"
#include "queue/qp_state.h"
#include "transport/connect.h"
#include "transport/drive.h"
#include "transport/state.h"

/* What a queue pair permits, and flags of regions that programs pass along; the latter mean nothing here. */
#define QP_ACCESS                                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                    \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | \
	 AV_ACCESS_FLUSH_GLOBAL)

/* Are the values of the attributes in @mask acceptable? Return: 0 or EINVAL. ibv_modify_qp(3) */
static int check_values(const struct av_context *ctx, const struct ibv_qp_attr *attr, int mask)
{
	const struct av_device *dev = ctx->dev;
	const struct {
		int bit;
		bool bad;
	} rule[] = {
		{IBV_QP_PORT, attr->port_num != 1},
		{IBV_QP_PKEY_INDEX, attr->pkey_index != 0},
		{IBV_QP_ALT_PATH, true}, /* no automatic path migration is advertised */
		{IBV_QP_PATH_MIG_STATE, attr->path_mig_state != IBV_MIG_MIGRATED},
		{IBV_QP_PATH_MTU, attr->path_mtu < IBV_MTU_256 || attr->path_mtu > dev->mtu},
		{IBV_QP_TIMEOUT, attr->timeout > 31},
		{IBV_QP_RETRY_CNT, attr->retry_cnt > 7},
		{IBV_QP_RNR_RETRY, attr->rnr_retry > 7},
		{IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer > 31},
		{IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic > dev->attr.max_qp_init_rd_atom},
		{IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic > dev->attr.max_qp_rd_atom},
		{IBV_QP_ACCESS_FLAGS,
		 (attr->qp_access_flags &
		  ~(unsigned int)(QP_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_OPTIONAL_RANGE)) != 0},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rule); i++)
		if ((mask & rule[i].bit) && rule[i].bad)
			return EINVAL;
	return mask & IBV_QP_AV ? av_check_ah_attr(ctx, &attr->ah_attr) : 0;
}

/* Copy the attributes that @mask names. */
static void store(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
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
	to->rq_psn &= 0xffffff;
	to->sq_psn &= 0xffffff;
	to->dest_qp_num &= 0xffffff;
}

/* Check against the state table and apply; both tokens held. Return: 0 or EINVAL, with nothing changed. */
static int apply(struct av_qp *qp, const struct ibv_qp_attr *attr, int mask, enum ibv_qp_state *to)
{
	enum ibv_qp_state from = (enum ibv_qp_state)atomic_load(&qp->end.qp->state);
	int err = av_qp_check_modify(qp->ibv.qp_type, from, attr->cur_qp_state, attr->qp_state, mask, to);

	if (err)
		return err;
	store(&qp->end.qp->attr, attr, mask);
	if (!(mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)) /* asked for once at a time */
		qp->end.qp->attr.en_sqd_async_notify = 0;
	if (mask & IBV_QP_STATE)
		av_qp_apply_state(&qp->end, from, *to);
	if (*to == IBV_QPS_RESET || (mask & (IBV_QP_DEST_QPN | IBV_QP_AV)))
		av_disconnect(&qp->peer);
	return 0;
}

static int modify(struct av_context *ctx, struct av_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = IBV_QPS_RESET;
	int err = check_values(ctx, attr, mask);

	if (err)
		return err;
	av_qp_quiesce(&qp->end);
	if (atomic_load(&qp->end.qp->qpn) != qp->ibv.qp_num)
		err = EINVAL; /* opened by its number, and ended by its creator since */
	else
		err = av_context_err(
			ctx); /* with the tokens: a device that fails takes them after it has said so */
	if (err == 0)
		err = apply(qp, attr, mask, &to);
	av_qp_resume(&qp->end);
	if (err == 0 && (mask & IBV_QP_STATE))
		qp->ibv.state = to;
	av_drive(&qp->end,
		 &qp->peer); /* go on, flush, note that the queue is drained; and what was posted meanwhile */
	if (err)
		return err;
	if (to == IBV_QPS_RTR)
		av_drive_peer(&qp->end); /* it may have been sending to us too early */
	return 0;
}

AV_EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
	struct av_context *ctx;
	struct av_qp *qp;
	int err;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_modify_qp, "IBVERBS_1.1")(ibv, attr, attr_mask);
	ctx = av_context_of(ibv->context);
	qp = av_qp_find(ibv);
	if (!qp)
		return av_fail_errno(ENOENT);
	err = av_verb_err(ctx, AV_FAIL_MODIFY_QP);
	if (err == 0)
		err = modify(ctx, qp, attr, av_qp_own_mask(ibv->qp_type, attr_mask));
	return err ? av_fail_errno(err) : 0;
}
