/* SPDX-License-Identifier: MIT */
#include "transport/count.h"

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "transport/responder.h"

const uint8_t av_traffic_kind[] = {
	[IBV_WR_RDMA_WRITE] = AV_TRAFFIC_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = AV_TRAFFIC_WRITE,
	[IBV_WR_SEND] = AV_TRAFFIC_SEND,
	[IBV_WR_SEND_WITH_IMM] = AV_TRAFFIC_SEND,
	[IBV_WR_RDMA_READ] = AV_TRAFFIC_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = AV_TRAFFIC_ATOMIC,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = AV_TRAFFIC_ATOMIC,
	[IBV_WR_SEND_WITH_INV] = AV_TRAFFIC_SEND,
	[AV_WR_FLUSH] = AV_TRAFFIC_FLUSH,
	[AV_WR_ATOMIC_WRITE] = AV_TRAFFIC_ATOMIC,
	[AV_WR_SIZED_CMP_AND_SWP] = AV_TRAFFIC_ATOMIC,
	[AV_WR_SIZED_FETCH_AND_ADD] = AV_TRAFFIC_ATOMIC,
	[AV_WR_MASKED_CMP_AND_SWP] = AV_TRAFFIC_ATOMIC,
	[AV_WR_MASKED_FETCH_AND_ADD] = AV_TRAFFIC_ATOMIC,
};

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
