/* SPDX-License-Identifier: MIT */
#include "transport/count.h"

#include "base/compiler.h"

/* Statuses without a row are errors that the requester found. */
static const enum av_req_event request_event[] = {
	[IBV_WC_WR_FLUSH_ERR] = AV_REQ_FLUSHED,
	[IBV_WC_RNR_RETRY_EXC_ERR] = AV_REQ_RNR_EXCEEDED,
	[IBV_WC_RETRY_EXC_ERR] = AV_REQ_RETRY_EXCEEDED,
	[IBV_WC_REM_ACCESS_ERR] = AV_REQ_REM_ACCESS,
	[IBV_WC_REM_INV_REQ_ERR] = AV_REQ_REM_INVALID,
	[IBV_WC_REM_OP_ERR] = AV_REQ_REM_OP,
};
_Static_assert(AV_REQ_RNR == 0, "nothing completes with that");

void av_count_request(struct av_qp_shared *qp, enum ibv_wc_status status)
{
	enum av_req_event event =
		status < AV_ARRAY_SIZE(request_event) ? request_event[status] : AV_REQ_RNR;

	av_count_req(qp, event == AV_REQ_RNR ? AV_REQ_LOCAL : event);
}

void av_count_receive(struct av_qp_shared *qp, enum ibv_wc_status status)
{
	av_count_rsp(qp, status == IBV_WC_WR_FLUSH_ERR ? AV_RSP_FLUSHED : AV_RSP_RECV_FAILED);
}
