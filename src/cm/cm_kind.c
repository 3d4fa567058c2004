/* SPDX-License-Identifier: MIT */
#include "cm/cm_kind.h"

#include <infiniband/verbs.h>

/* Fields @transport and @ext_transport of a REQ. */
enum { RC, UC, EXTENDED = 3, EXTENDED_XRC = 1 };

void av_cm_kind_put(struct av_cm_message *req, uint8_t qp_type)
{
	req->transport = qp_type == IBV_QPT_UC ? UC : qp_type == IBV_QPT_XRC_SEND ? EXTENDED : RC;
	req->ext_transport = qp_type == IBV_QPT_XRC_SEND ? EXTENDED_XRC : 0;
}

uint8_t av_cm_kind_wanted(const struct av_cm_message *request)
{
	if (request->attribute == AV_CM_SIDR_REQ)
		return IBV_QPT_UD;
	switch (request->transport) {
	case RC:
		return IBV_QPT_RC;
	case UC:
		return IBV_QPT_UC;
	case EXTENDED:
		return request->ext_transport == EXTENDED_XRC ? IBV_QPT_XRC_RECV : AV_CM_ANY_KIND;
	default:
		return AV_CM_ANY_KIND;
	}
}

/* An XRC target's is in the place of an EE context. */
uint32_t av_cm_kind_qpn(const struct av_cm_message *rep, uint8_t asking)
{
	return asking == IBV_QPT_XRC_SEND ? rep->eecn : rep->qpn;
}

void av_cm_kind_put_qpn(struct av_cm_message *rep, uint8_t qp_type, uint32_t qpn)
{
	if (qp_type != IBV_QPT_XRC_RECV) {
		rep->qpn = qpn;
		return;
	}
	rep->eecn = qpn;
	rep->srq = true;
}
