/* SPDX-License-Identifier: MIT */
#include "transport/rules.h"

#include "base/compiler.h"
#include "base/thread.h"
#include "device/port.h"

/* The table of outcomes. */

#define OK IBV_WC_SUCCESS

/* clang-format off */
static const struct av_rule table[] = {
	/*                               name                       requester                 NAK                     receive request         fails  event at the responder,   counted there as */
	[AV_FAULT_NONE]             = {"none",                      OK,                       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_LOC_LEN]          = {"local length",              IBV_WC_LOC_LEN_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_LOC_QP_OP]        = {"local operation",           IBV_WC_LOC_QP_OP_ERR,     AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_LOC_PROT]         = {"local protection",          IBV_WC_LOC_PROT_ERR,      AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_MW_BIND]          = {"memory window",             IBV_WC_MW_BIND_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_REM_ACCESS]       = {"remote access",             IBV_WC_REM_ACCESS_ERR,    AV_NAK_REMOTE_ACCESS,   IBV_WC_LOC_ACCESS_ERR,  true,  IBV_EVENT_QP_ACCESS_ERR,  AV_RSP_ACCESS},
	[AV_FAULT_REM_OP_DENIED]    = {"operation denied by QP",    IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_REM_NO_RD_ATOMIC] = {"no responder resources",    IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_REM_MISALIGNED]   = {"misaligned atomic",         IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_REM_NO_COMMAND]   = {"no tunneled atomic",        IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_RECV_SHORT]       = {"receive buffer too short",  IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR,     true,  AV_EVENT_NONE,            AV_RSP_LENGTH},
	[AV_FAULT_RECV_PROT]        = {"receive buffer protection", IBV_WC_REM_OP_ERR,        AV_NAK_REMOTE_OP,       IBV_WC_LOC_PROT_ERR,    true,  AV_EVENT_NONE,            AV_RSP_OPERATION},
	[AV_FAULT_RECV_CQ]          = {"receive CQ full",           IBV_WC_REM_OP_ERR,        AV_NAK_REMOTE_OP,       OK,                     true,  IBV_EVENT_QP_FATAL,       AV_RSP_OPERATION},
	[AV_FAULT_INVALIDATE]       = {"key cannot be invalidated", OK,                       AV_NAK_NONE,            IBV_WC_LOC_QP_OP_ERR,   true,  AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_FORBIDDEN]        = {"memory out of reach",       IBV_WC_REM_OP_ERR,        AV_NAK_REMOTE_OP,       OK,                     false, AV_EVENT_NONE,            AV_RSP_OPERATION},
	[AV_FAULT_BUSY]             = {"busy",                      IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_TUNNELED]         = {"tunneled atomic",           IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_SRC]              = {"source missing",            IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_DST]              = {"destination missing",       IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_GONE]             = {"process gone",              IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_RNR_EXHAUSTED]    = {"receiver not ready",        IBV_WC_RNR_RETRY_EXC_ERR, AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_RETRY_EXHAUSTED]  = {"no answer",                 IBV_WC_RETRY_EXC_ERR,     AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
};
/* clang-format on */
_Static_assert(AV_ARRAY_SIZE(table) == AV_FAULT_N, "a row for each fault");

enum av_fault av_fault_of_nak(uint8_t nak)
{
	for (unsigned int i = AV_FAULT_NONE + 1; i < AV_FAULT_N; i++)
		if (table[i].nak == nak && nak != AV_NAK_NONE)
			return (enum av_fault)i;
	return AV_FAULT_NONE;
}

const struct av_rule *av_rule(enum av_fault fault)
{
	return &table[fault];
}

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

/* Finding the responder of a connected queue pair. */

bool av_at_address(const struct ibv_ah_attr *ah, const struct av_seg *seg)
{
	if (ah->is_global)
		return av_port_has_gid(seg->head->port, &ah->grh.dgid);
	return seg->head->link_layer == IBV_LINK_LAYER_INFINIBAND && seg->head->lid == ah->dlid;
}

void av_disconnect(struct av_qp_end *peer)
{
	av_seg_put(peer->seg);
	*peer = (struct av_qp_end){0};
}

void av_connect_anew(const struct av_qp_end *end, struct av_qp_end *peer)
{
	AV_UNCANCELLED;
	uint32_t qpn = end->qp->attr.dest_qp_num;

	av_disconnect(peer);
	*peer = av_qp_get(qpn);
	if (!peer->qp || atomic_load(&peer->qp->qpn) != qpn ||
	    !av_at_address(&end->qp->attr.ah_attr, peer->seg))
		av_disconnect(peer);
}
