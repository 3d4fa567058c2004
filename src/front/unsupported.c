/* SPDX-License-Identifier: MIT */
/*
 * Exported verbs that this device does not have (yet): on our objects the documented "not supported", on those of
 * other devices the system's own.
 */
#include <string.h>

#include "front/context.h"

AV_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return av_ours(pd->context) ? av_fail_null(EOPNOTSUPP) : AV_NEXT(ibv_create_ah, "IBVERBS_1.1")(pd, attr);
}

AV_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	return av_ours(ah->context) ? av_fail_errno(EOPNOTSUPP) : AV_NEXT(ibv_destroy_ah, "IBVERBS_1.1")(ah);
}

AV_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
				  struct ibv_ah_attr *attr)
{
	return av_ours(context) ? av_fail_errno(EOPNOTSUPP)
				: AV_NEXT(ibv_init_ah_from_wc, "IBVERBS_1.1")(context, port, wc, grh, attr);
}

AV_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	return av_ours(pd->context) ? av_fail_null(EOPNOTSUPP)
				    : AV_NEXT(ibv_create_ah_from_wc, "IBVERBS_1.1")(pd, wc, grh, port);
}

AV_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return av_ours(qp->context) ? av_fail_errno(EOPNOTSUPP)
				    : AV_NEXT(ibv_attach_mcast, "IBVERBS_1.1")(qp, gid, lid);
}

AV_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return av_ours(qp->context) ? av_fail_errno(EOPNOTSUPP)
				    : AV_NEXT(ibv_detach_mcast, "IBVERBS_1.1")(qp, gid, lid);
}

AV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return av_ours(context) ? av_fail_errno(EOPNOTSUPP)
				: AV_NEXT(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1")(context, attr, eth_mac, vid);
}

AV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!av_ours(qp->context))
		return AV_NEXT(ibv_query_ece, "IBVERBS_1.10")(qp, ece);
	memset(ece, 0, sizeof(*ece));
	return av_fail_errno(EOPNOTSUPP);
}

AV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return av_ours(qp->context) ? av_fail_errno(EOPNOTSUPP) : AV_NEXT(ibv_set_ece, "IBVERBS_1.10")(qp, ece);
}
