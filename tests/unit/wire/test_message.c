/* SPDX-License-Identifier: MIT */
/* Messages in packets: how many, which, and what each of them carries. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/packet.h"

static const struct {
	uint64_t bytes;
	uint32_t mtu, packets, last; /* payload of the last one */
} cut[] = {
	{0, 256, 1, 0},
	{1, 256, 1, 1},
	{255, 256, 1, 255},
	{256, 256, 1, 256},
	{257, 256, 2, 1},
	{512, 256, 2, 256},
	{513, 256, 3, 1},
	{4096, 4096, 1, 4096},
	{4097, 4096, 2, 1},
	{1 << 20, 1024, 1024, 1024},
	{(1 << 20) + 7, 512, 2049, 7},
	{1u << 31, 4096, 1 << 19, 4096},
	{0x80000000, 256, 1 << 23, 256},
};

/* First, middle, last and only packets. */
static const struct {
	enum av_service service;
	enum av_operation operation;
	enum av_tail tail;
	int first, middle, last, only; /* opcodes; -1: there is none */
} opcodes[] = {
	{AV_SERVICE_RC, AV_OP_SEND, AV_TAIL_NONE, 0x00, 0x01, 0x02, 0x04},
	{AV_SERVICE_RC, AV_OP_SEND, AV_TAIL_IMM, 0x00, 0x01, 0x03, 0x05},
	{AV_SERVICE_RC, AV_OP_SEND, AV_TAIL_INVALIDATE, 0x00, 0x01, 0x16, 0x17},
	{AV_SERVICE_RC, AV_OP_WRITE, AV_TAIL_NONE, 0x06, 0x07, 0x08, 0x0a},
	{AV_SERVICE_RC, AV_OP_WRITE, AV_TAIL_IMM, 0x06, 0x07, 0x09, 0x0b},
	{AV_SERVICE_RC, AV_OP_READ_RESPONSE, AV_TAIL_NONE, 0x0d, 0x0e, 0x0f, 0x10},
	{AV_SERVICE_RC, AV_OP_READ, AV_TAIL_NONE, -1, -1, -1, 0x0c},
	{AV_SERVICE_RC, AV_OP_ACK, AV_TAIL_NONE, -1, -1, -1, 0x11},
	{AV_SERVICE_RC, AV_OP_ATOMIC_ACK, AV_TAIL_NONE, -1, -1, -1, 0x12},
	{AV_SERVICE_RC, AV_OP_CMP_SWAP, AV_TAIL_NONE, -1, -1, -1, 0x13},
	{AV_SERVICE_RC, AV_OP_FETCH_ADD, AV_TAIL_NONE, -1, -1, -1, 0x14},
	{AV_SERVICE_RC, AV_OP_FLUSH, AV_TAIL_NONE, -1, -1, -1, 0x1c},
	{AV_SERVICE_RC, AV_OP_ATOMIC_WRITE, AV_TAIL_NONE, -1, -1, -1, 0x1d},
	{AV_SERVICE_UC, AV_OP_SEND, AV_TAIL_IMM, 0x20, 0x21, 0x23, 0x25},
	{AV_SERVICE_UC, AV_OP_WRITE, AV_TAIL_NONE, 0x26, 0x27, 0x28, 0x2a},
	{AV_SERVICE_UC, AV_OP_READ, AV_TAIL_NONE, -1, -1, -1, -1},
	{AV_SERVICE_UD, AV_OP_SEND, AV_TAIL_NONE, -1, -1, -1, 0x64},
	{AV_SERVICE_UD, AV_OP_SEND, AV_TAIL_IMM, -1, -1, -1, 0x65},
	{AV_SERVICE_UD, AV_OP_WRITE, AV_TAIL_NONE, -1, -1, -1, -1},
	{AV_SERVICE_XRC, AV_OP_SEND, AV_TAIL_NONE, 0xa0, 0xa1, 0xa2, 0xa4},
	{AV_SERVICE_XRC, AV_OP_READ, AV_TAIL_NONE, -1, -1, -1, 0xac},
};

static struct av_wire_message message(size_t row, uint64_t bytes, uint32_t mtu)
{
	return (struct av_wire_message){
		.service = opcodes[row].service,
		.operation = opcodes[row].operation,
		.tail = opcodes[row].tail,
		.bytes = bytes,
		.mtu = mtu,
		.head = {.psn = 0xfffffe, .solicited = true, .ack_request = true, .dest_qpn = 5},
	};
}

static int opcode_of(const struct av_wire_message *m, uint32_t index)
{
	struct av_packet p;
	int64_t at = av_wire_packet(m, index, &p);

	if (at < 0)
		assert_int_equal(at, -1);
	return at < 0 ? -1 : p.opcode;
}

TEST(opcodes_by_place)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++) {
		struct av_wire_message three = message(i, 700, 256), one = message(i, 200, 256);

		assert_int_equal(opcode_of(&three, 0), opcodes[i].first);
		assert_int_equal(opcode_of(&three, 1), opcodes[i].middle);
		if (opcodes[i].first >= 0)
			assert_int_equal(opcode_of(&three, 2), opcodes[i].last);
		assert_int_equal(opcode_of(&one, 0), opcodes[i].only);
	}
}

/* Only the last packet of a message, or its only one, says how it ends. */
TEST(opcodes_by_meaning)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++) {
		const struct {
			enum av_place place;
			enum av_tail tail;
			int wanted;
		} asked[] = {
			{AV_PLACE_FIRST, AV_TAIL_NONE, opcodes[i].first},
			{AV_PLACE_MIDDLE, AV_TAIL_NONE, opcodes[i].middle},
			{AV_PLACE_LAST, opcodes[i].tail, opcodes[i].last},
			{AV_PLACE_ONLY, opcodes[i].tail, opcodes[i].only},
		};

		for (size_t k = 0; k < AV_ARRAY_SIZE(asked); k++)
			assert_int_equal(av_opcode_find(opcodes[i].service, opcodes[i].operation,
							asked[k].place, asked[k].tail),
					 asked[k].wanted);
	}
}

TEST(pieces)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(cut); i++) {
		struct av_wire_message m = message(0, cut[i].bytes, cut[i].mtu);
		uint32_t n = av_wire_packets(m.bytes, m.mtu), psn = m.head.psn;
		int64_t at = 0;

		assert_int_equal(n, cut[i].packets);
		for (uint32_t k = 0; k < n; k++, psn = (psn + 1) & 0xffffff) {
			struct av_packet p;

			assert_int_equal(av_wire_packet(&m, k, &p), at);
			assert_int_equal(p.psn, psn);
			assert_int_equal(p.payload_bytes, k == n - 1 ? cut[i].last : cut[i].mtu);
			assert_int_equal(p.solicited, k == n - 1);
			assert_int_equal(p.ack_request, k == n - 1);
			assert_int_equal(p.dest_qpn, 5);
			at += p.payload_bytes;
		}
		assert_int_equal(at, cut[i].bytes);
	}
}

/* Whole packets are as long as the first, where its headers are the longest; none is without. */
TEST(fillers)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++) {
		enum av_operation operation = opcodes[i].operation;
		bool fills = operation == AV_OP_WRITE || operation == AV_OP_READ_RESPONSE;

		for (unsigned int at = 0; opcodes[i].first >= 0 && at < 3 * 4; at++) {
			struct av_wire_message m = message(i, at / 3 % 2 ? 768 : 767, 256);
			size_t first = av_packet_header_bytes((uint8_t)opcodes[i].first), own;
			bool whole = at % 3 < 2 || m.bytes == 768;
			struct av_packet p;

			m.fills = at / 6;
			assert_true(av_wire_packet(&m, at % 3, &p) >= 0);
			own = av_packet_header_bytes(p.opcode);
			assert_int_equal(p.filler, m.fills && fills && whole ? first - own : 0);
		}
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
