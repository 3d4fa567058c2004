/* SPDX-License-Identifier: MIT */
#include "transport/to_packets.h"

#include <arpa/inet.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "device/device.h"

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

static struct av_packet request_head(const struct av_qp_end *req, const struct av_sq_wqe *h,
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

struct av_wire_message av_request_message(const struct av_qp_end *req, const struct av_sq_wqe *head,
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

void av_datagram_message(const struct av_qp_end *req, const struct av_sq_wqe *head,
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
