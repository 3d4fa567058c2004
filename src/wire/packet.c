/* SPDX-License-Identifier: MIT */
#include "wire/packet.h"

#include <string.h>

#include "base/compiler.h"

static const uint16_t counts[AV_CREDITS_NONE_CODE] = {
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

uint8_t av_credits_code(uint32_t count)
{
	uint8_t code = AV_CREDITS_NONE_CODE - 1;

	while (counts[code] > count)
		code--;
	return code;
}

uint32_t av_credits_of(uint8_t code)
{
	return code < AV_CREDITS_NONE_CODE ? counts[code] : AV_CREDITS_UNLIMITED;
}

#define LOW_BITS 0x1f
#define H(name)	 (1u << AV_HEADER_##name)

#define FIRST  AV_PLACE_FIRST
#define MIDDLE AV_PLACE_MIDDLE
#define LAST   AV_PLACE_LAST
#define ONLY   AV_PLACE_ONLY
#define NONE   AV_TAIL_NONE
#define IMM    AV_TAIL_IMM
#define INV    AV_TAIL_INVALIDATE

/* clang-format off */
static const struct av_opcode table[LOW_BITS + 1] = {
	/*        name                          headers                     operation            place   tail  response payload */
	[0x00] = {"SEND First",                 0,                          AV_OP_SEND,          FIRST,  NONE, false, true},
	[0x01] = {"SEND Middle",                0,                          AV_OP_SEND,          MIDDLE, NONE, false, true},
	[0x02] = {"SEND Last",                  0,                          AV_OP_SEND,          LAST,   NONE, false, true},
	[0x03] = {"SEND Last with Immediate",   H(IMMDT),                   AV_OP_SEND,          LAST,   IMM,  false, true},
	[0x04] = {"SEND Only",                  0,                          AV_OP_SEND,          ONLY,   NONE, false, true},
	[0x05] = {"SEND Only with Immediate",   H(IMMDT),                   AV_OP_SEND,          ONLY,   IMM,  false, true},
	[0x06] = {"RDMA WRITE First",           H(RETH),                    AV_OP_WRITE,         FIRST,  NONE, false, true},
	[0x07] = {"RDMA WRITE Middle",          0,                          AV_OP_WRITE,         MIDDLE, NONE, false, true},
	[0x08] = {"RDMA WRITE Last",            0,                          AV_OP_WRITE,         LAST,   NONE, false, true},
	[0x09] = {"RDMA WRITE Last with Imm.",  H(IMMDT),                   AV_OP_WRITE,         LAST,   IMM,  false, true},
	[0x0a] = {"RDMA WRITE Only",            H(RETH),                    AV_OP_WRITE,         ONLY,   NONE, false, true},
	[0x0b] = {"RDMA WRITE Only with Imm.",  H(RETH) | H(IMMDT),         AV_OP_WRITE,         ONLY,   IMM,  false, true},
	[0x0c] = {"RDMA READ Request",          H(RETH),                    AV_OP_READ,          ONLY,   NONE, false, false},
	[0x0d] = {"RDMA READ Response First",   H(AETH),                    AV_OP_READ_RESPONSE, FIRST,  NONE, true,  true},
	[0x0e] = {"RDMA READ Response Middle",  0,                          AV_OP_READ_RESPONSE, MIDDLE, NONE, true,  true},
	[0x0f] = {"RDMA READ Response Last",    H(AETH),                    AV_OP_READ_RESPONSE, LAST,   NONE, true,  true},
	[0x10] = {"RDMA READ Response Only",    H(AETH),                    AV_OP_READ_RESPONSE, ONLY,   NONE, true,  true},
	[0x11] = {"Acknowledge",                H(AETH),                    AV_OP_ACK,           ONLY,   NONE, true,  false},
	[0x12] = {"ATOMIC Acknowledge",         H(AETH) | H(ATOMIC_ACK_ETH), AV_OP_ATOMIC_ACK,   ONLY,   NONE, true,  false},
	[0x13] = {"CmpSwap",                    H(ATOMIC_ETH),              AV_OP_CMP_SWAP,      ONLY,   NONE, false, false},
	[0x14] = {"FetchAdd",                   H(ATOMIC_ETH),              AV_OP_FETCH_ADD,     ONLY,   NONE, false, false},
	[0x16] = {"SEND Last with Invalidate",  H(IETH),                    AV_OP_SEND,          LAST,   INV,  false, true},
	[0x17] = {"SEND Only with Invalidate",  H(IETH),                    AV_OP_SEND,          ONLY,   INV,  false, true},
	[0x1c] = {"FLUSH",                      H(FETH) | H(RETH),          AV_OP_FLUSH,         ONLY,   NONE, false, false},
	[0x1d] = {"ATOMIC WRITE",               H(RETH),                    AV_OP_ATOMIC_WRITE,  ONLY,   NONE, false, true},
};

static const struct av_opcode notification =
	 {"Congestion Notification",            H(CNP),                     AV_OP_CNP,           ONLY,   NONE, true,  false};

static const struct {
	uint8_t bits;
	uint16_t request_headers; /* headers that every request has in addition */
	uint32_t opcodes;	  /* which rows of the table exist: a bit for each */
} services[] = {
	{AV_SERVICE_RC,  0,         0x30dfffff},
	{AV_SERVICE_UC,  0,         0x00000fff},
	{AV_SERVICE_UD,  H(DETH),   0x00000030},
	{AV_SERVICE_XRC, H(XRCETH), 0x30dfffff},
};
/* clang-format on */

bool av_opcode_info(uint8_t opcode, struct av_opcode *info)
{
	uint8_t low = opcode & LOW_BITS;

	if (opcode == AV_OPCODE_CNP) {
		*info = notification;
		return true;
	}
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(services); i++) {
		if (services[i].bits != (opcode & ~LOW_BITS))
			continue;
		*info = table[low];
		if (!info->response)
			info->headers |= services[i].request_headers;
		return services[i].opcodes >> low & 1;
	}
	return false;
}

int av_opcode_find(enum av_service service, enum av_operation operation, enum av_place place,
		   enum av_tail tail)
{
	for (unsigned int low = 0; low <= LOW_BITS; low++) {
		const struct av_opcode *row = &table[low];
		struct av_opcode info;

		if (row->name && row->operation == operation && row->place == place &&
		    row->tail == tail)
			return av_opcode_info((uint8_t)(service | low), &info)
				       ? (int)(service | low)
				       : -1;
	}
	return -1;
}

#define BTH_BYTES	   12
#define CNP_BYTES	   16
#define ATOMIC_WRITE_BYTES 8

/* Byte 1 of the BTH. */
#define SOLICITED    0x80
#define MIGRATED     0x40
#define PAD_SHIFT    4
#define VERSION_MASK 0x0f
/* Bytes 4 and 8 of the BTH. */
#define FECN	    0x80
#define BECN	    0x40
#define ACK_REQUEST 0x80

static void put_xrceth(const struct av_packet *p, uint8_t *to)
{
	av_put32(to, p->srqn & 0xffffff);
}

static void get_xrceth(struct av_packet *p, const uint8_t *from)
{
	p->srqn = av_get24(from + 1);
}

static void put_deth(const struct av_packet *p, uint8_t *to)
{
	av_put32(to, p->qkey);
	av_put32(to + 4, p->src_qpn & 0xffffff);
}

static void get_deth(struct av_packet *p, const uint8_t *from)
{
	p->qkey = av_get32(from);
	p->src_qpn = av_get24(from + 5);
}

static void put_feth(const struct av_packet *p, uint8_t *to)
{
	av_put32(to, (p->selectivity & 3u) << 4 | (p->placement & 15u));
}

static void get_feth(struct av_packet *p, const uint8_t *from)
{
	p->placement = from[3] & 15;
	p->selectivity = from[3] >> 4 & 3;
}

static void put_reth(const struct av_packet *p, uint8_t *to)
{
	av_put64(to, p->addr);
	av_put32(to + 8, p->rkey);
	av_put32(to + 12, p->length);
}

static void get_reth(struct av_packet *p, const uint8_t *from)
{
	p->addr = av_get64(from);
	p->rkey = av_get32(from + 8);
	p->length = av_get32(from + 12);
}

static void put_atomic_eth(const struct av_packet *p, uint8_t *to)
{
	av_put64(to, p->addr);
	av_put32(to + 8, p->rkey);
	av_put64(to + 12, p->swap_add);
	av_put64(to + 20, p->compare);
}

static void get_atomic_eth(struct av_packet *p, const uint8_t *from)
{
	p->addr = av_get64(from);
	p->rkey = av_get32(from + 8);
	p->swap_add = av_get64(from + 12);
	p->compare = av_get64(from + 20);
}

static void put_aeth(const struct av_packet *p, uint8_t *to)
{
	to[0] = p->syndrome;
	av_put24(to + 1, p->msn);
}

static void get_aeth(struct av_packet *p, const uint8_t *from)
{
	p->syndrome = from[0];
	p->msn = av_get24(from + 1);
}

static void put_atomic_ack_eth(const struct av_packet *p, uint8_t *to)
{
	av_put64(to, p->original);
}

static void get_atomic_ack_eth(struct av_packet *p, const uint8_t *from)
{
	p->original = av_get64(from);
}

static void put_immdt(const struct av_packet *p, uint8_t *to)
{
	av_put32(to, p->imm);
}

static void get_immdt(struct av_packet *p, const uint8_t *from)
{
	p->imm = av_get32(from);
}

static void put_ieth(const struct av_packet *p, uint8_t *to)
{
	av_put32(to, p->invalidate);
}

static void get_ieth(struct av_packet *p, const uint8_t *from)
{
	p->invalidate = av_get32(from);
}

static void put_cnp(const struct av_packet *p, uint8_t *to)
{
	(void)p;
	memset(to, 0, CNP_BYTES);
}

static void get_cnp(struct av_packet *p, const uint8_t *from)
{
	(void)p;
	(void)from;
}

static const struct {
	uint8_t bytes;
	void (*put)(const struct av_packet *p, uint8_t *to);
	void (*get)(struct av_packet *p, const uint8_t *from);
} header[AV_HEADER_N] = {
	[AV_HEADER_XRCETH] = {4, put_xrceth, get_xrceth},
	[AV_HEADER_DETH] = {8, put_deth, get_deth},
	[AV_HEADER_FETH] = {4, put_feth, get_feth},
	[AV_HEADER_RETH] = {16, put_reth, get_reth},
	[AV_HEADER_ATOMIC_ETH] = {28, put_atomic_eth, get_atomic_eth},
	[AV_HEADER_AETH] = {4, put_aeth, get_aeth},
	[AV_HEADER_ATOMIC_ACK_ETH] = {8, put_atomic_ack_eth, get_atomic_ack_eth},
	[AV_HEADER_IMMDT] = {4, put_immdt, get_immdt},
	[AV_HEADER_IETH] = {4, put_ieth, get_ieth},
	[AV_HEADER_CNP] = {CNP_BYTES, put_cnp, get_cnp},
};

static size_t header_bytes(const struct av_opcode *info)
{
	size_t sum = BTH_BYTES;

	for (unsigned int i = 0; i < AV_HEADER_N; i++)
		if (info->headers >> i & 1)
			sum += header[i].bytes;
	return sum;
}

size_t av_packet_header_bytes(uint8_t opcode)
{
	struct av_opcode info;

	return av_opcode_info(opcode, &info) ? header_bytes(&info) : 0;
}

static void put_bth(const struct av_packet *p, uint8_t *to)
{
	to[0] = p->opcode;
	to[1] = (uint8_t)((p->solicited ? SOLICITED : 0) | (p->migrated ? MIGRATED : 0) |
			  av_packet_padding(p->payload_bytes) << PAD_SHIFT);
	av_put16(to + 2, p->pkey);
	to[4] = (uint8_t)((p->fecn ? FECN : 0) | (p->becn ? BECN : 0));
	av_put24(to + 5, p->dest_qpn);
	to[8] = p->ack_request ? ACK_REQUEST : 0;
	av_put24(to + 9, p->psn);
}

static void get_bth(struct av_packet *p, const uint8_t *from)
{
	memset(p, 0, sizeof(*p));
	p->opcode = from[0];
	p->solicited = from[1] & SOLICITED;
	p->migrated = from[1] & MIGRATED;
	p->pkey = av_get16(from + 2);
	p->fecn = from[4] & FECN;
	p->becn = from[4] & BECN;
	p->dest_qpn = av_get24(from + 5);
	p->ack_request = from[8] & ACK_REQUEST;
	p->psn = av_get24(from + 9);
}

size_t av_packet_put_headers(const struct av_packet *p, uint8_t *to)
{
	struct av_opcode info;
	uint8_t *at = to + BTH_BYTES;

	if (!av_opcode_info(p->opcode, &info))
		return 0;
	put_bth(p, to);
	for (unsigned int i = 0; i < AV_HEADER_N; i++) {
		if (!(info.headers >> i & 1))
			continue;
		header[i].put(p, at);
		at += header[i].bytes;
	}
	return (size_t)(at - to);
}

static enum av_packet_fault get_payload(struct av_packet *p, const struct av_opcode *info,
					size_t pad, const uint8_t *at, size_t bytes)
{
	if (bytes & 3 || pad > bytes)
		return AV_PACKET_PADDING;
	p->payload = at;
	p->payload_bytes = (uint32_t)(bytes - pad);
	if (bytes > 0 && !info->payload)
		return AV_PACKET_PAYLOAD;
	if (info->operation == AV_OP_ATOMIC_WRITE && p->payload_bytes != ATOMIC_WRITE_BYTES)
		return AV_PACKET_PAYLOAD;
	return AV_PACKET_OK;
}

enum av_packet_fault av_packet_get(struct av_packet *p, const uint8_t *from, size_t bytes)
{
	const uint8_t *at = from + BTH_BYTES;
	struct av_opcode info;

	if (bytes < BTH_BYTES)
		return AV_PACKET_SHORT;
	get_bth(p, from);
	if (from[1] & VERSION_MASK)
		return AV_PACKET_VERSION;
	if (!av_opcode_info(p->opcode, &info))
		return AV_PACKET_OPCODE;
	if (bytes < header_bytes(&info))
		return AV_PACKET_SHORT;
	for (unsigned int i = 0; i < AV_HEADER_N; i++) {
		if (!(info.headers >> i & 1))
			continue;
		header[i].get(p, at);
		at += header[i].bytes;
	}
	return get_payload(p, &info, from[1] >> PAD_SHIFT & 3, at, bytes - (size_t)(at - from));
}

/* --- path MTU -------------------------------------------------------------------------- */

/* With a whole payload: IPv6 40, UDP 8, BTH 12, XRCETH 4, RETH 16, immediate 4, ICRC 4. */
#define HEADERS 88u

enum ibv_mtu av_mtu_within(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && av_mtu_bytes(mtu) + HEADERS > bytes)
		mtu--;
	return mtu;
}

static enum av_place pick_packet_place(uint32_t index, uint32_t count)
{
	if (count == 1)
		return AV_PLACE_ONLY;
	if (index == 0)
		return AV_PLACE_FIRST;
	return index == count - 1 ? AV_PLACE_LAST : AV_PLACE_MIDDLE;
}

int64_t av_wire_packet(const struct av_wire_message *m, uint32_t index, struct av_packet *p)
{
	uint32_t count = av_wire_packets(m->bytes, m->mtu);
	uint64_t offset = (uint64_t)index * m->mtu;
	bool last = index == count - 1;
	int opcode = av_opcode_find(m->service, m->operation, pick_packet_place(index, count),
				    last ? m->tail : AV_TAIL_NONE);

	if (opcode < 0)
		return -1;
	*p = m->head;
	p->opcode = (uint8_t)opcode;
	p->psn = av_psn_after(m->head.psn, index);
	p->solicited = last && m->head.solicited;
	p->ack_request = last && m->head.ack_request;
	p->payload = NULL;
	p->payload_bytes = (uint32_t)(last ? m->bytes - offset : m->mtu);
	return (int64_t)offset;
}
