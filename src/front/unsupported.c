/* SPDX-License-Identifier: MIT */
/*
 * Exported verbs that this device does not have (yet): on our objects the documented "not supported", on those of
 * other devices the system's own.
 */
#include <string.h>

#include "front/context.h"

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
