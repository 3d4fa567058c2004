/* SPDX-License-Identifier: MIT */
/* Every opcode of every service: which headers it has, there and back, and each way of being none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/packet.h"

enum { RC = 1, UC = 2, UD = 4, XRC = 8, CNP = 16 };

/* IBTA volume 1, table of OpCodes: bytes of headers behind the BTH by service, written down again.
 */
static const struct {
	uint8_t low;
	unsigned int services;
	uint8_t bytes; /* of the reliable connection */
	bool payload, response;
} known[] = {
	{0x00, RC | UC | XRC, 0, true, false},
	{0x01, RC | UC | XRC, 0, true, false},
	{0x02, RC | UC | XRC, 0, true, false},
	{0x03, RC | UC | XRC, 4, true, false},
	{0x04, RC | UC | UD | XRC, 0, true, false},
	{0x05, RC | UC | UD | XRC, 4, true, false},
	{0x06, RC | UC | XRC, 16, true, false},
	{0x07, RC | UC | XRC, 0, true, false},
	{0x08, RC | UC | XRC, 0, true, false},
	{0x09, RC | UC | XRC, 4, true, false},
	{0x0a, RC | UC | XRC, 16, true, false},
	{0x0b, RC | UC | XRC, 20, true, false},
	{0x0c, RC | XRC, 16, false, false},
	{0x0d, RC | XRC, 4, true, true},
	{0x0e, RC | XRC, 0, true, true},
	{0x0f, RC | XRC, 4, true, true},
	{0x10, RC | XRC, 4, true, true},
	{0x11, RC | XRC, 4, false, true},
	{0x12, RC | XRC, 12, false, true},
	{0x13, RC | XRC, 28, false, false},
	{0x14, RC | XRC, 28, false, false},
	{0x16, RC | XRC, 4, true, false},
	{0x17, RC | XRC, 4, true, false},
	{0x1c, RC | XRC, 20, false, false},
	{0x1d, RC | XRC, 16, true, false},
	{0x01, CNP, 16, false, true},
};

static const struct {
	uint8_t prefix;
	unsigned int service;
	uint8_t more; /* bytes that its requests have beside */
} services[] = {{0x00, RC, 0}, {0x20, UC, 0}, {0x60, UD, 8}, {0xa0, XRC, 4}, {0x80, CNP, 0}};

/* Bytes of the headers that an opcode should have; 0: it is none. @row: out, its place in @known.
 */
static size_t wanted_bytes(unsigned int opcode, size_t *row)
{
	for (size_t s = 0; s < AV_ARRAY_SIZE(services); s++)
		for (*row = 0; *row < AV_ARRAY_SIZE(known); (*row)++)
			if (opcode == (services[s].prefix | known[*row].low) &&
			    known[*row].services & services[s].service)
				return 12u + known[*row].bytes +
				       (known[*row].response ? 0 : services[s].more);
	return 0;
}

TEST(headers_of_every_opcode)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		const struct av_opcode *info = av_opcode_info((uint8_t)opcode);
		size_t row, bytes = wanted_bytes(opcode, &row);

		assert_int_equal(av_packet_header_bytes((uint8_t)opcode), bytes);
		assert_int_equal(info != NULL, bytes != 0);
		if (!bytes)
			continue;
		assert_int_equal(info->response, known[row].response);
		assert_int_equal(info->payload, known[row].payload);
	}
}

/* All fields that there are, each bit of them in use. */
static struct av_packet full(uint8_t opcode)
{
	return (struct av_packet){
		.opcode = opcode,
		.solicited = true,
		.migrated = true,
		.fecn = true,
		.becn = true,
		.ack_request = true,
		.pkey = 0x8fa1,
		.dest_qpn = 0xf1e2d3,
		.psn = 0xc4b5a6,
		.srqn = 0xe1e2e3,
		.qkey = 0x80010203,
		.src_qpn = 0xd1d2d3,
		.placement = 0xf,
		.selectivity = 3,
		.addr = 0xf1f2f3f4f5f6f7f8,
		.rkey = 0xfcfbfaf9,
		.length = 0xa1a2a3a4,
		.swap_add = 0xb1b2b3b4b5b6b7b8,
		.compare = 0xc1c2c3c4c5c6c7c8,
		.syndrome = 0xff,
		.msn = 0x919293,
		.original = 0x8182838485868788,
		.imm = 0x71727374,
		.invalidate = 0x61626364,
	};
}

/* Bytes of a packet with @payload bytes of payload. */
static size_t put(struct av_packet *p, uint32_t payload, uint8_t *bytes)
{
	size_t at;

	p->payload_bytes = payload;
	at = av_packet_put_headers(p, bytes);
	memset(bytes + at, 0x5a, payload);
	return (size_t)(av_packet_put_behind(p, bytes + at + payload) - bytes);
}

static enum av_packet_error get_exactly(struct av_packet *p, const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	enum av_packet_error error;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	error = av_packet_get(p, copy, size);
	free(copy);
	return error;
}

/* The next opcode that there is, after *@opcode; its packet, and its row. */
static bool next_known(int *opcode, struct av_packet *p, size_t *row)
{
	while (++*opcode < 256) {
		if (!wanted_bytes((unsigned int)*opcode, row))
			continue;
		*p = full((uint8_t)*opcode);
		return true;
	}
	return false;
}

static uint32_t payload_of(size_t row, uint32_t bytes)
{
	return known[row].low == 0x1d ? 8 : known[row].payload ? bytes : 0;
}

/* What was read, written again, is the same bytes: so each field was read from where it was
 * written, but for those that the opcode does not have, which are 0. */
TEST(there_and_back)
{
	uint8_t first[128], second[128];
	struct av_packet p, read;
	size_t row;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		for (uint32_t payload = 0; wanted_bytes(opcode, &row) && payload < 6; payload++) {
			size_t size;

			p = full((uint8_t)opcode);
			size = put(&p, payload_of(row, payload), first);
			assert_int_equal(av_packet_get(&read, first, size), AV_PACKET_OK);
			assert_int_equal(read.payload_bytes, payload_of(row, payload));
			assert_int_equal(put(&read, read.payload_bytes, second), size);
			assert_memory_equal(first, second, size);
			assert_int_equal(read.psn, p.psn);
			assert_int_equal(read.dest_qpn, p.dest_qpn);
			assert_int_equal(read.pkey, p.pkey);
		}
	}
}

/* Is it a kind of packet that may have something behind its payload? */
static bool may_have_behind(unsigned int opcode, bool carried)
{
	enum av_operation operation = av_opcode_info((uint8_t)opcode)->operation;

	return opcode >> 5 == 0 && (operation == AV_OP_SEND || operation == AV_OP_WRITE ||
				    (!carried && operation == AV_OP_READ_RESPONSE));
}

static const uint32_t lengths[] = {0, 1, 4, 5, 60};

/* Only a SEND or an RDMA WRITE of RC carries one, and nothing but an acknowledgement. */
TEST(carried_acknowledgements)
{
	static const struct {
		uint8_t syndrome;
		bool acknowledges;
	} kinds[] = {{0x00, true}, {0x1f, true}, {0x20, false}, {0x60, false}, {0xff, false}};
	uint8_t bytes[128];
	struct av_packet p, read;
	size_t row;

	for (unsigned int at = 0; at < 256 * AV_ARRAY_SIZE(lengths) * AV_ARRAY_SIZE(kinds); at++) {
		unsigned int opcode = at % 256, kind = at / 256 % AV_ARRAY_SIZE(kinds);
		uint32_t length = lengths[at / 256 / AV_ARRAY_SIZE(kinds)];
		bool is;

		if (!wanted_bytes(opcode, &row) || !known[row].payload || known[row].low == 0x1d)
			continue;
		is = may_have_behind(opcode, true) && kinds[kind].acknowledges;
		p = full((uint8_t)opcode);
		p.understands = p.carries = true;
		p.carried = (uint32_t)kinds[kind].syndrome << 24 | 0x123456;
		assert_int_equal(av_packet_get(&read, bytes, put(&p, length, bytes)), AV_PACKET_OK);
		assert_int_equal(bytes[8], 0xe0);
		assert_int_equal(read.carries, is);
		assert_int_equal(read.payload_bytes, is ? length : length + 4);
		assert_int_equal(read.carried, is ? p.carried : 0);
	}
}

/* The last byte says how many there are, if it can be true. Whatever they are, they are read. */
TEST(fillers)
{
	uint8_t bytes[128];
	struct av_packet p, read;
	size_t row;

	for (unsigned int at = 0; at < 256 * AV_ARRAY_SIZE(lengths) * 256; at++) {
		unsigned int opcode = at % 256, last = at / 256 % 256;
		uint32_t length = lengths[at / 256 / 256];
		size_t size;
		bool is;

		if (!wanted_bytes(opcode, &row) || !known[row].payload || known[row].low == 0x1d)
			continue;
		is = may_have_behind(opcode, false) && length && last % 4 == 0 && last <= length;
		p = full((uint8_t)opcode);
		p.filler = 0;
		size = put(&p, length, bytes);
		bytes[8] |= 0x10;
		if (length)
			bytes[size - av_packet_padding(length) - 1] = (uint8_t)last;
		assert_int_equal(av_packet_get(&read, bytes, size), AV_PACKET_OK);
		assert_int_equal(read.filler, is ? last : 0);
		assert_int_equal(read.payload_bytes, is ? length - last : length);
	}
}

/* Payload, acknowledgement, filler, padding. */
TEST(what_is_behind_the_payload)
{
	static const uint8_t wanted[] = {0x5a, 0x5a, 0x5a, 0x5a, 0x1f, 0x12, 0x34, 0x56,
					 0,    0,    0,	   0,	 0,    0,    0,	   8};
	uint8_t bytes[128];
	struct av_packet read,
		p = {.opcode = 0x07, .carries = true, .filler = 8, .carried = 0x1f123456};
	size_t size = put(&p, 4, bytes);

	assert_int_equal(bytes[8], 0x30);
	assert_int_equal(size, 12 + sizeof(wanted));
	assert_memory_equal(bytes + 12, wanted, sizeof(wanted));
	assert_int_equal(av_packet_get(&read, bytes, size), AV_PACKET_OK);
	assert_true(read.carries);
	assert_int_equal(read.filler, 8);
	assert_int_equal(read.carried, p.carried);
	assert_int_equal(read.payload_bytes, 4);
}

/* IBTA volume 1, 9.2 to 9.3: the headers of full(), written down by hand. */
static const struct {
	uint8_t opcode, at, bytes;
	const char *wanted;
} drawn[] = {
	{0x04, 0, 12, "\x04\xc0\x8f\xa1\xc0\xf1\xe2\xd3\x80\xc4\xb5\xa6"},
	{0x05, 12, 4, "\x71\x72\x73\x74"},
	{0x17, 12, 4, "\x61\x62\x63\x64"},
	{0x1c, 12, 4, "\x00\x00\x00\x3f"},
	{0x1c, 16, 8, "\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8"},
	{0x1c, 24, 8, "\xfc\xfb\xfa\xf9\xa1\xa2\xa3\xa4"},
	{0x13, 12, 8, "\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8"},
	{0x13, 20, 4, "\xfc\xfb\xfa\xf9"},
	{0x13, 24, 8, "\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8"},
	{0x13, 32, 8, "\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8"},
	{0x12, 12, 4, "\xff\x91\x92\x93"},
	{0x12, 16, 8, "\x81\x82\x83\x84\x85\x86\x87\x88"},
	{0x64, 12, 8, "\x80\x01\x02\x03\x00\xd1\xd2\xd3"},
	{0xa4, 12, 4, "\x00\xe1\xe2\xe3"},
	{0x81, 12, 8, "\0\0\0\0\0\0\0"},
	{0x81, 20, 8, "\0\0\0\0\0\0\0"},
};

TEST(fields_where_the_specification_draws_them)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(drawn); i++) {
		struct av_packet p = full(drawn[i].opcode);
		uint8_t bytes[128];

		memset(bytes, 0xa5, sizeof(bytes));
		(void)put(&p, 0, bytes);
		assert_memory_equal(bytes + drawn[i].at, drawn[i].wanted, drawn[i].bytes);
	}
}

/* Fields that are wider in memory than in a packet leave their neighbours alone. */
TEST(what_is_too_wide_is_cut)
{
	uint8_t cut[128], wanted[128];
	struct av_packet p;
	size_t row;

	for (int opcode = -1; next_known(&opcode, &p, &row);) {
		memset(cut, 0, sizeof(cut));
		memset(wanted, 0, sizeof(wanted));
		(void)put(&p, 0, wanted);
		p.srqn |= 0xff000000;
		p.src_qpn |= 0xff000000;
		p.placement |= 0xf0;
		p.selectivity |= 0xfc;
		(void)put(&p, 0, cut);
		assert_memory_equal(cut, wanted, sizeof(cut));
	}
}

/* A prefix that ends within the headers is short; one that ends later is no multiple of four, or
 * another packet with less payload: the length is not the packet's to know. */
TEST(every_prefix)
{
	struct av_packet p, read;
	uint8_t bytes[128];
	size_t row;

	for (int opcode = -1; next_known(&opcode, &p, &row);) {
		size_t headers = wanted_bytes((unsigned int)opcode, &row);

		for (size_t size = put(&p, payload_of(row, 8), bytes); size-- > 0;) {
			enum av_packet_error error = get_exactly(&read, bytes, size);

			if (size < headers)
				assert_int_equal(error, AV_PACKET_SHORT);
			else if (size % 4)
				assert_int_equal(error, AV_PACKET_PADDING);
			else
				assert_int_equal(error, known[row].low == 0x1d ? AV_PACKET_PAYLOAD
									       : AV_PACKET_OK);
		}
	}
}

TEST(payload_of_those_that_have_some)
{
	uint8_t bytes[128];
	struct av_packet p;
	size_t row;

	for (int opcode = -1; next_known(&opcode, &p, &row);)
		assert_int_equal(get_exactly(&p, bytes, put(&p, 8, bytes)),
				 known[row].payload ? AV_PACKET_OK : AV_PACKET_PAYLOAD);
}

TEST(unknown_opcodes)
{
	uint8_t bytes[128] = {0};
	struct av_packet p;
	size_t row;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		struct av_packet none = {.opcode = (uint8_t)opcode};

		if (wanted_bytes(opcode, &row))
			continue;
		bytes[0] = (uint8_t)opcode;
		assert_int_equal(av_packet_get(&p, bytes, sizeof(bytes)), AV_PACKET_OPCODE);
		assert_int_equal(av_packet_put_headers(&none, bytes), 0);
	}
}

static const struct {
	uint8_t opcode, second; /* byte of the BTH */
	size_t size;
	enum av_packet_error error;
} bad[] = {
	{0x04, 0x00, 12, AV_PACKET_OK},	     {0x04, 0x01, 12, AV_PACKET_VERSION},
	{0x04, 0x0f, 12, AV_PACKET_VERSION}, {0x04, 0x10, 12, AV_PACKET_PADDING},
	{0x04, 0x30, 16, AV_PACKET_OK},	     {0x04, 0x00, 14, AV_PACKET_PADDING},
	{0x11, 0x00, 16, AV_PACKET_OK},	     {0x11, 0x00, 20, AV_PACKET_PAYLOAD},
	{0x0c, 0x00, 32, AV_PACKET_PAYLOAD}, {0x1d, 0x00, 36, AV_PACKET_OK},
	{0x1d, 0x00, 28, AV_PACKET_PAYLOAD}, {0x1d, 0x00, 40, AV_PACKET_PAYLOAD},
};

TEST(what_contradicts_itself)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(bad); i++) {
		uint8_t bytes[64] = {bad[i].opcode, bad[i].second};
		struct av_packet p;

		assert_int_equal(get_exactly(&p, bytes, bad[i].size), bad[i].error);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
