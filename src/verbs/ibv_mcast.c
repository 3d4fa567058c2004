/* SPDX-License-Identifier: MIT */
/* Attaches queue pairs to multicast groups. */
#include "registry/multicast.h"
#include "base/uncancelled.h"
#include "transport/wire.h"
#include "verbs/fail.h"
#include "verbs/next.h"

static int check(const struct av_qp *qp, const union ibv_gid *gid)
{
	if (!qp)
		return ENOENT;
	if (av_context_of(qp->ibv.context)->forked)
		return EPERM;
	if (qp->ibv.qp_type != IBV_QPT_UD)
		return av_refuse(EINVAL, AV_CHECK_MCAST_SERVICE, qp->ibv.qp_type, IBV_QPT_UD);
	return av_multicast_gid(gid) ? 0 : av_refuse(EINVAL, AV_CHECK_MCAST_GID, gid->raw[0], 0xff);
}

static int attach(struct av_qp *qp, const union ibv_gid *gid)
{
	struct av_multicast_member member = {
		.location = {qp->end.seg->ref, qp->end.qp->index},
		.qpn = qp->ibv.qp_num,
	};
	int err = check(qp, gid);

	if (err == 0)
		err = av_context_err(av_context_of(qp->ibv.context));
	if (err)
		return err;
	pthread_mutex_lock(&qp->changes_mutex);
	if (!av_multicast_has(gid, qp->ibv.qp_num)) {
		err = -av_multicast_attach(gid, &member);
		if (err == 0) {
			atomic_fetch_add(&qp->groups, 1);
			av_wire_join(&qp->end, gid);
		}
	}
	pthread_mutex_unlock(&qp->changes_mutex);
	return err;
}

AV_EXPORT int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	AV_UNCANCELLED;
	struct av_qp *qp;
	int err;

	AV_OURS_OR_NEXT(av_fail_errno, ATTACH_MCAST, ibv_attach_mcast, "IBVERBS_1.1", ibv, gid,
			lid);
	qp = av_qp_find(ibv);
	err = qp ? attach(qp, gid) : ENOENT;
	return err ? av_fail_errno(AV_VERB_ATTACH_MCAST, err) : 0;
}

static int detach(struct av_qp *qp, const union ibv_gid *gid)
{
	int err;

	pthread_mutex_lock(&qp->changes_mutex);
	err = -av_multicast_detach(gid, qp->ibv.qp_num);
	if (err == 0) {
		atomic_fetch_sub(&qp->groups, 1);
		av_wire_leave(&qp->end, gid);
	}
	pthread_mutex_unlock(&qp->changes_mutex);
	return err == EINVAL ? av_refuse(EINVAL, AV_CHECK_MCAST_NOT_ATTACHED, 0, 0) : err;
}

AV_EXPORT int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	AV_UNCANCELLED;
	struct av_qp *qp;
	int err;

	AV_OURS_OR_NEXT(av_fail_errno, DETACH_MCAST, ibv_detach_mcast, "IBVERBS_1.1", ibv, gid,
			lid);
	qp = av_qp_find(ibv);
	err = check(qp, gid);
	if (err == 0)
		err = detach(qp, gid);
	return err ? av_fail_errno(AV_VERB_DETACH_MCAST, err) : 0;
}
