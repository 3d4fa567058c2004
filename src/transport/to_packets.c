/* SPDX-License-Identifier: MIT */
#include "transport/to_packets.h"

#include <arpa/inet.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/newer_verbs.h"
#include "device/device.h"

#define QKEY_OWN 0x80000000u

static const struct row {
	bool there;
	struct av_packet_kind kind;
} rows[] = {
	[IBV_WR_SEND] = {true, {AV_OP_SEND, AV_TAIL_NONE, AV_OP_ACK}},
	[IBV_WR_SEND_WITH_IMM] = {true, {AV_OP_SEND, AV_TAIL_IMM, AV_OP_ACK}},
	[IBV_WR_SEND_WITH_INV] = {true, {AV_OP_SEND, AV_TAIL_INVALIDATE, AV_OP_ACK}},
	[IBV_WR_RDMA_WRITE] = {true, {AV_OP_WRITE, AV_TAIL_NONE, AV_OP_ACK}},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {true, {AV_OP_WRITE, AV_TAIL_IMM, AV_OP_ACK}},
	[IBV_WR_RDMA_READ] = {true, {AV_OP_READ, AV_TAIL_NONE, AV_OP_READ_RESPONSE}},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {true, {AV_OP_CMP_SWAP, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {true, {AV_OP_FETCH_ADD, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}},
	[AV_WR_SIZED_CMP_AND_SWP] = {true, {AV_OP_CMP_SWAP, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}},
	[AV_WR_SIZED_FETCH_AND_ADD] = {true, {AV_OP_FETCH_ADD, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}},
	[AV_WR_MASKED_CMP_AND_SWP] = {true, {AV_OP_CMP_SWAP, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}},
	[AV_WR_MASKED_FETCH_AND_ADD] = {true, {AV_OP_FETCH_ADD, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}},
	[AV_WR_FLUSH] = {true, {AV_OP_FLUSH, AV_TAIL_NONE, AV_OP_READ_RESPONSE}},
	[AV_WR_ATOMIC_WRITE] = {true, {AV_OP_ATOMIC_WRITE, AV_TAIL_NONE, AV_OP_READ_RESPONSE}},
};

const struct av_packet_kind *av_packet_kind(uint32_t opcode)
{
	return opcode < AV_ARRAY_SIZE(rows) && rows[opcode].there ? &rows[opcode].kind : NULL;
}

uint32_t av_packet_wr_opcode(const struct av_opcode *info)
{
	static const uint32_t send[] = {
		[AV_TAIL_NONE] = IBV_WR_SEND,
		[AV_TAIL_IMM] = IBV_WR_SEND_WITH_IMM,
		[AV_TAIL_INVALIDATE] = IBV_WR_SEND_WITH_INV,
	};

	switch ((enum av_operation)info->operation) {
	case AV_OP_SEND:
		return send[info->tail];
	case AV_OP_WRITE:
		return info->tail == AV_TAIL_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	case AV_OP_READ:
		return IBV_WR_RDMA_READ;
	case AV_OP_CMP_SWAP:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	case AV_OP_FETCH_ADD:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	case AV_OP_FLUSH:
		return AV_WR_FLUSH;
	default:
		return AV_WR_ATOMIC_WRITE;
	}
}

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

uint32_t av_mtu_bytes(uint32_t mtu)
{
	return 128u << (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? mtu : IBV_MTU_256);
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
		.bytes = av_packet_kind_has_payload(kind) ? head->bytes : 0,
		.mtu = av_mtu_bytes(req->qp->attr.path_mtu),
		.head = request_head(req, head, kind, operands, psn),
	};
}

void av_datagram_message(const struct av_qp_end *req, const struct av_sq_wqe *head,
			 struct av_wire_message *m)
{
	uint32_t qkey = head->ud.qkey;

	m->mtu = av_mtu_bytes(req->seg->head->mtu);
	m->head.dest_qpn = head->ud.qpn & AV_QPN_MASK;
	m->head.qkey = qkey & QKEY_OWN ? req->qp->attr.qkey : qkey;
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
