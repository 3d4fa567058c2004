/* SPDX-License-Identifier: MIT */
#include "transport/outcome.h"

#include <arpa/inet.h>

#include "base/thread.h"

enum av_service av_service_of(uint32_t type)
{
	switch (type) {
	case IBV_QPT_UC:
		return AV_SERVICE_UC;
	case IBV_QPT_UD:
		return AV_SERVICE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return AV_SERVICE_XRC;
	default:
		return AV_SERVICE_RC;
	}
}

static struct av_packet request_head(const struct av_qp_ref *req, const struct av_sq_wqe *h,
				     const struct av_packet_kind *k,
				     const struct av_atomic *operands, uint32_t psn)
{
	bool cmp_swap = k->operation == AV_OP_CMP_SWAP, flush = k->operation == AV_OP_FLUSH;

	return (struct av_packet){
		.solicited = h->flags & IBV_SEND_SOLICITED,
		.migrated = true,
		.ack_request = av_service_is_reliable(req->qp->type),
		.pkey = AV_PKEY_DEFAULT,
		.dest_qpn = req->qp->attr.dest_qp_num,
		.psn = psn,
		.srqn = h->srqn,
		.placement = flush ? (uint8_t)h->placement : 0,
		.selectivity = flush ? (uint8_t)h->selectivity : 0,
		.addr = h->remote_addr,
		.rkey = h->rkey,
		.length = (uint32_t)(flush ? h->compare_add : h->bytes),
		.swap_add = operands   ? operands->value.word[0]
			    : cmp_swap ? h->swap
				       : h->compare_add,
		.compare = !cmp_swap  ? 0
			   : operands ? operands->compare.word[0]
				      : h->compare_add,
		.imm = ntohl(h->imm),
		.invalidate = h->imm,
	};
}

struct av_wire_message av_request_message(const struct av_qp_ref *req, const struct av_sq_wqe *head,
					  const struct av_packet_kind *kind,
					  const struct av_atomic *operands, uint32_t psn)
{
	return (struct av_wire_message){
		.service = av_service_of(req->qp->type),
		.operation = kind->operation,
		.tail = kind->tail,
		.bytes = av_wr_opcode(head->opcode)->source ? head->bytes : 0,
		.mtu = av_mtu_bytes(req->qp->attr.path_mtu),
		.head = request_head(req, head, kind, operands, psn),
	};
}

void av_datagram_message(const struct av_qp_ref *req, const struct av_sq_wqe *head,
			 struct av_wire_message *m)
{
	m->mtu = av_mtu_bytes(req->seg->head->mtu);
	m->head.dest_qpn = head->ud.qpn & AV_QPN_MASK;
	m->head.qkey = av_datagram_qkey(req, head);
	m->head.src_qpn = atomic_load_explicit(&req->qp->qpn, memory_order_relaxed);
}

struct av_wire_message av_answer_message(const struct av_qp_shared *rsp, uint32_t type,
					 uint32_t mtu, uint32_t qpn)
{
	return (struct av_wire_message){
		.service = av_service_of(type),
		.mtu = av_mtu_bytes(mtu),
		.head = {.migrated = true,
			 .pkey = AV_PKEY_DEFAULT,
			 .dest_qpn = qpn,
			 .syndrome = AV_SYNDROME_ACK,
			 .msn = rsp->msn & AV_PSN_MASK},
	};
}

/* The table of outcomes. */

#define OK IBV_WC_SUCCESS

/* clang-format off */
static const struct av_fault_effects table[] = {
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

const struct av_fault_effects *av_fault_effects(enum av_fault fault)
{
	return &table[fault];
}

uint8_t av_nak_syndrome(const struct av_outcome *result)
{
	if (result->wait_reason == AV_WAIT_RNR)
		return (uint8_t)(AV_SYNDROME_RNR_NAK | (result->rnr_timer & 31));
	return result->wait_reason == AV_WAIT_NONE ? av_fault_effects(result->fault)->nak
						   : AV_NAK_NONE;
}
