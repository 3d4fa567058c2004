/* SPDX-License-Identifier: MIT */
#include "wire/packet.h"

#include <string.h>

#define CREDITS_MOST 32768u /* of the last code: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 ... */

uint8_t av_credits_code(uint32_t count)
{
	unsigned int log;

	if (count < 2)
		return (uint8_t)count;
	count = count < CREDITS_MOST ? count : CREDITS_MOST;
	log = 31 - (unsigned int)__builtin_clz(count);
	return (uint8_t)(2 * log + (count >> (log - 1) & 1));
}

uint32_t av_credits_of(uint8_t code)
{
	if (code >= AV_CREDITS_NONE_CODE)
		return AV_CREDITS_UNLIMITED;
	return code < 2 ? code : (2u + code % 2) << (code / 2 - 1);
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

/* By the high three bits of an opcode. */
static const struct {
	uint16_t request_headers; /* headers that every request has in addition */
	uint32_t opcodes;	  /* which rows of the table exist: a bit for each */
} services[8] = {
	[AV_SERVICE_RC >> 5]  = {0,         0x30dfffff},
	[AV_SERVICE_UC >> 5]  = {0,         0x00000fff},
	[AV_SERVICE_UD >> 5]  = {H(DETH),   0x00000030},
	[AV_SERVICE_XRC >> 5] = {H(XRCETH), 0x30dfffff},
};
/* clang-format on */

const struct av_opcode *av_opcode_info(uint8_t opcode)
{
	uint8_t low = opcode & LOW_BITS;

	if (opcode == AV_OPCODE_CNP)
		return &notification;
	return services[opcode >> 5].opcodes >> low & 1 ? &table[low] : NULL;
}

int av_opcode_find(enum av_service service, enum av_operation operation, enum av_place place,
		   enum av_tail tail)
{
	for (unsigned int low = 0; low <= LOW_BITS; low++) {
		const struct av_opcode *row = &table[low];

		if (row->name && row->operation == operation && row->place == place &&
		    row->tail == tail)
			return av_opcode_info((uint8_t)(service | low)) ? (int)(service | low) : -1;
	}
	return -1;
}

#define BTH_BYTES	   12
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
#define UNDERSTANDS 0x40
#define CARRIES	    0x20
#define FILLED	    0x10

/* --- fields ---------------------------------------------------------------------------- */

#define WORD_BITS 64u

/* The bits are 0 before. */
static void put_field(const void *from, const struct av_wire_field *f, uint8_t *to)
{
	unsigned int bytes = (f->bit + f->bits + 7u) / 8;
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)from + f->member, f->member_bytes);
	v = (v >> f->shift & UINT64_MAX >> (WORD_BITS - f->bits)) << (8 * bytes - f->bit - f->bits);
	for (to += f->byte; bytes > 0; v >>= 8)
		to[--bytes] |= (uint8_t)v;
}

static void get_field(void *to, const struct av_wire_field *f, const uint8_t *from)
{
	unsigned int bytes = (f->bit + f->bits + 7u) / 8;
	uint8_t *member = (uint8_t *)to + f->member;
	uint64_t v = 0, before = 0;

	from += f->byte;
	for (unsigned int i = 0; i < bytes; i++)
		v = v << 8 | from[i];
	v = v >> (8 * bytes - f->bit - f->bits) & UINT64_MAX >> (WORD_BITS - f->bits);
	memcpy(&before, member, f->member_bytes);
	v = before | v << f->shift;
	memcpy(member, &v, f->member_bytes);
}

void av_wire_fields_put(const struct av_wire_field *f, size_t count, const void *from, uint8_t *to)
{
	for (; count > 0 && f->bits; f++, count--)
		if (f->bits > WORD_BITS)
			memcpy(to + f->byte, (const uint8_t *)from + f->member, f->member_bytes);
		else
			put_field(from, f, to);
}

void av_wire_fields_get(const struct av_wire_field *f, size_t count, void *to, const uint8_t *from)
{
	for (; count > 0 && f->bits; f++, count--)
		if (f->bits > WORD_BITS)
			memcpy((uint8_t *)to + f->member, from + f->byte, f->member_bytes);
		else
			get_field(to, f, from);
}

/* --- headers ---------------------------------------------------------------------------- */

#define FIELDS			 4u /* of a header, at most */
#define F(byte, bit, bits, name) AV_WIRE_FIELD(struct av_packet, byte, bit, bits, name, 0)

static const struct {
	uint8_t bytes;
	struct av_wire_field field[FIELDS];
} header[AV_HEADER_N] = {
	[AV_HEADER_XRCETH] = {4, {F(1, 0, 24, srqn)}},
	[AV_HEADER_DETH] = {8, {F(0, 0, 32, qkey), F(5, 0, 24, src_qpn)}},
	[AV_HEADER_FETH] = {4, {F(3, 4, 4, placement), F(3, 2, 2, selectivity)}},
	[AV_HEADER_RETH] = {16, {F(0, 0, 64, addr), F(8, 0, 32, rkey), F(12, 0, 32, length)}},
	[AV_HEADER_ATOMIC_ETH] = {28,
				  {F(0, 0, 64, addr), F(8, 0, 32, rkey), F(12, 0, 64, swap_add),
				   F(20, 0, 64, compare)}},
	[AV_HEADER_AETH] = {4, {F(0, 0, 8, syndrome), F(1, 0, 24, msn)}},
	[AV_HEADER_ATOMIC_ACK_ETH] = {8, {F(0, 0, 64, original)}},
	[AV_HEADER_IMMDT] = {4, {F(0, 0, 32, imm)}},
	[AV_HEADER_IETH] = {4, {F(0, 0, 32, invalidate)}},
	[AV_HEADER_CNP] = {.bytes = 16},
};

/* Those of the operation, and what every request of its service has in addition. */
static uint32_t headers_of(uint8_t opcode, const struct av_opcode *info)
{
	return info->headers | (info->response ? 0u : services[opcode >> 5].request_headers);
}

static size_t header_bytes(uint32_t headers)
{
	size_t sum = BTH_BYTES;

	for (; headers; headers &= headers - 1)
		sum += header[__builtin_ctz(headers)].bytes;
	return sum;
}

size_t av_packet_header_bytes(uint8_t opcode)
{
	const struct av_opcode *info = av_opcode_info(opcode);

	return info ? header_bytes(headers_of(opcode, info)) : 0;
}

static void put_bth(const struct av_packet *p, uint8_t *to)
{
	to[0] = p->opcode;
	to[1] = (uint8_t)((p->solicited ? SOLICITED : 0) | (p->migrated ? MIGRATED : 0) |
			  av_packet_padding(p->payload_bytes) << PAD_SHIFT);
	av_put16(to + 2, p->pkey);
	to[4] = (uint8_t)((p->fecn ? FECN : 0) | (p->becn ? BECN : 0));
	av_put24(to + 5, p->dest_qpn);
	to[8] = (uint8_t)((p->ack_request ? ACK_REQUEST : 0) | (p->understands ? UNDERSTANDS : 0) |
			  (p->carries ? CARRIES : 0) | (p->filler ? FILLED : 0));
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
	p->understands = from[8] & UNDERSTANDS;
	p->carries = from[8] & CARRIES;
	p->filler = from[8] & FILLED;
	p->psn = av_get24(from + 9);
}

void av_packet_ask(uint8_t *headers)
{
	headers[8] |= ACK_REQUEST;
}

size_t av_packet_put_headers(const struct av_packet *p, uint8_t *to)
{
	const struct av_opcode *info = av_opcode_info(p->opcode);
	uint8_t *at = to + BTH_BYTES;
	uint32_t headers;

	if (!info)
		return 0;
	put_bth(p, to);
	headers = headers_of(p->opcode, info);
	memset(at, 0, header_bytes(headers) - BTH_BYTES);
	for (; headers; headers &= headers - 1) {
		unsigned int i = (unsigned int)__builtin_ctz(headers);

		av_wire_fields_put(header[i].field, FIELDS, p, at);
		at += header[i].bytes;
	}
	return (size_t)(at - to);
}

uint8_t *av_packet_put_behind(const struct av_packet *p, uint8_t *to)
{
	uint32_t padding = av_packet_padding(p->payload_bytes);

	if (p->carries)
		av_put32(to, p->carried);
	to += p->carries ? AV_CARRIED_BYTES : 0;
	memset(to, 0, p->filler + padding);
	to += p->filler;
	if (p->filler)
		to[-1] = p->filler;
	return to + padding;
}

/* @bytes: in, with what is behind the payload; out, without it */
static void get_behind(struct av_packet *p, const struct av_opcode *info, const uint8_t *at,
		       size_t *bytes)
{
	bool may = p->opcode >> 5 == AV_SERVICE_RC >> 5 && info->operation != AV_OP_ATOMIC_WRITE;
	uint8_t filler = p->filler && may && *bytes > 0 ? at[*bytes - 1] : 0;

	p->filler = filler % 4 == 0 && filler <= *bytes ? filler : 0;
	*bytes -= p->filler;
	p->carries &= may && *bytes >= AV_CARRIED_BYTES &&
		      av_operation_carries((enum av_operation)info->operation) &&
		      at[*bytes - AV_CARRIED_BYTES] <= AV_SYNDROME_ACK;
	if (p->carries)
		p->carried = av_get32(at + (*bytes -= AV_CARRIED_BYTES));
}

static enum av_packet_error get_payload(struct av_packet *p, const struct av_opcode *info,
					size_t pad, const uint8_t *at, size_t bytes)
{
	if (bytes & 3 || pad > bytes)
		return AV_PACKET_PADDING;
	bytes -= pad;
	if (bytes > 0 && !info->payload)
		return AV_PACKET_PAYLOAD;
	if (info->operation == AV_OP_ATOMIC_WRITE && bytes != ATOMIC_WRITE_BYTES)
		return AV_PACKET_PAYLOAD;
	if (av_unlikely(p->filler || p->carries))
		get_behind(p, info, at, &bytes);
	p->payload = at;
	p->payload_bytes = (uint32_t)bytes;
	return AV_PACKET_OK;
}

enum av_packet_error av_packet_get(struct av_packet *p, const uint8_t *from, size_t bytes)
{
	const uint8_t *at = from + BTH_BYTES;
	const struct av_opcode *info;
	uint32_t headers;

	if (bytes < BTH_BYTES)
		return AV_PACKET_SHORT;
	get_bth(p, from);
	if (from[1] & VERSION_MASK)
		return AV_PACKET_VERSION;
	info = av_opcode_info(p->opcode);
	if (!info)
		return AV_PACKET_OPCODE;
	headers = headers_of(p->opcode, info);
	if (bytes < header_bytes(headers))
		return AV_PACKET_SHORT;
	for (; headers; headers &= headers - 1) {
		unsigned int i = (unsigned int)__builtin_ctz(headers);

		av_wire_fields_get(header[i].field, FIELDS, p, at);
		at += header[i].bytes;
	}
	return get_payload(p, info, from[1] >> PAD_SHIFT & 3, at, bytes - (size_t)(at - from));
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

/* Bytes by which the headers of the message's first packet are longer. */
static uint8_t filler_of(const struct av_opcode *info)
{
	uint32_t first = info->operation == AV_OP_WRITE		  ? H(RETH)
			 : info->operation == AV_OP_READ_RESPONSE ? H(AETH)
								  : 0;

	if ((first & ~(uint32_t)info->headers) == 0)
		return 0;
	return (uint8_t)(header_bytes(first) - header_bytes(info->headers));
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
	p->psn = AV_PSN_AFTER(m->head.psn, index);
	p->solicited = last && m->head.solicited;
	p->ack_request = last && m->head.ack_request;
	p->payload = NULL;
	p->payload_bytes = (uint32_t)(last ? m->bytes - offset : m->mtu);
	p->filler =
		m->fills && p->payload_bytes == m->mtu ? filler_of(av_opcode_info(p->opcode)) : 0;
	return (int64_t)offset;
}
