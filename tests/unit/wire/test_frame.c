/* SPDX-License-Identifier: MIT */
/*
 * Frames byte by byte. The golden ones were made by other software: headers by scapy, the CRC by
 * scapy (IPv4) or by zlib in Python over fields masked by hand (IPv6); and looked through, field by
 * field.
 */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/frame_get.h"
#include "lib/unit.h"
#include "wire/packet.h"

/* clang-format off */
static const uint8_t send_only_padded[] = {
		0x02, 0xff, 0xc0, 0x00, 0x02, 0x02, 0x02, 0xff, 0xc0, 0x00, 0x02, 0x01, 0x08, 0x00, 0x45, 0x00,
		0x00, 0x34, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb6, 0xb5, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00,
		0x02, 0x02, 0xc0, 0x01, 0x12, 0xb7, 0x00, 0x20, 0x00, 0x00, 0x04, 0xb0, 0xff, 0xff, 0x00, 0x00,
		0x12, 0x34, 0x80, 0xab, 0xcd, 0xef, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x00, 0x00, 0x00, 0x95, 0x71,
		0x36, 0xb1,
};

static const uint8_t write_only_with_immediate[] = {
		0x02, 0xff, 0xc0, 0x00, 0x02, 0x02, 0x02, 0xff, 0xc0, 0x00, 0x02, 0x01, 0x08, 0x00, 0x45, 0xb8,
		0x00, 0x44, 0x47, 0x11, 0x40, 0x00, 0x40, 0x11, 0x6e, 0xdc, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00,
		0x02, 0x02, 0xff, 0xff, 0x12, 0xb7, 0x00, 0x30, 0x00, 0x00, 0x0b, 0x00, 0xff, 0xff, 0x00, 0x00,
		0x00, 0x11, 0x80, 0x00, 0x00, 0x01, 0x00, 0x00, 0x7f, 0x00, 0x11, 0x22, 0x33, 0x44, 0x00, 0x00,
		0x2a, 0x01, 0x00, 0x00, 0x00, 0x04, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x02, 0x03, 0x04, 0xd3, 0x8b,
		0xbd, 0x02,
};

static const uint8_t acknowledge[] = {
		0x02, 0xff, 0xc0, 0x00, 0x02, 0x02, 0x02, 0xff, 0xc0, 0x00, 0x02, 0x01, 0x08, 0x00, 0x45, 0x00,
		0x00, 0x30, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb6, 0xb9, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00,
		0x02, 0x02, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff, 0x00, 0x00,
		0x00, 0x11, 0x00, 0x00, 0x00, 0x01, 0x1f, 0x00, 0x00, 0x07, 0xd2, 0x23, 0xec, 0x74,
};

static const uint8_t datagram_with_immediate_ipv6[] = {
		0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x86, 0xdd, 0x60, 0x35,
		0x43, 0x21, 0x00, 0x28, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xd0, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x30, 0x48, 0x65, 0x20,
		0xff, 0xff, 0x00, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x09, 0x11, 0x11, 0x11, 0x11, 0x00, 0x00,
		0x00, 0x77, 0x01, 0x02, 0x03, 0x04, 0x61, 0x62, 0x00, 0x00, 0xd8, 0x7f, 0xca, 0x7f,
};

static const uint8_t xrc_compare_swap_ipv6[] = {
		0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x86, 0xdd, 0x60, 0x00,
		0x00, 0x00, 0x00, 0x38, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc1, 0x23, 0x12, 0xb7, 0x00, 0x38, 0x34, 0x04, 0xb3, 0x00,
		0x80, 0x01, 0x00, 0x00, 0x00, 0x20, 0x80, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x99, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0xc5, 0xf9, 0x11, 0x64,
};

/* clang-format on */

#define IPV4(last)                                 \
	{                                          \
		[10] = 0xff, 0xff, 192, 0, 2, last \
	}
#define IPV6(last)                                  \
	{                                           \
		0x20, 0x01, 0x0d, 0xb8, [15] = last \
	}
#define ETH4(last)                          \
	{                                   \
		0x02, 0xff, 192, 0, 2, last \
	}
#define ETH6(last)               \
	{                        \
		0x02, [5] = last \
	}

static const struct {
	const uint8_t *bytes;
	size_t size;
	struct av_frame frame;
	struct av_packet packet;
} golden[] = {
	{send_only_padded,
	 sizeof(send_only_padded),
	 {.eth_dst = ETH4(2),
	  .eth_src = ETH4(1),
	  .path = {.dst = IPV4(2), .src = IPV4(1), .hop_limit = 64, .source_port = 0xc001}},
	 {.opcode = 0x04,
	  .solicited = true,
	  .pkey = 0xffff,
	  .dest_qpn = 0x1234,
	  .ack_request = true,
	  .psn = 0xabcdef,
	  .payload = (const uint8_t *)"hello",
	  .payload_bytes = 5}},
	{write_only_with_immediate,
	 sizeof(write_only_with_immediate),
	 {.eth_dst = ETH4(2),
	  .eth_src = ETH4(1),
	  .path = {.dst = IPV4(2),
		   .src = IPV4(1),
		   .traffic_class = 0xb8,
		   .identification = 0x4711,
		   .hop_limit = 64,
		   .source_port = 0xffff}},
	 {.opcode = 0x0b,
	  .pkey = 0xffff,
	  .dest_qpn = 0x11,
	  .ack_request = true,
	  .psn = 1,
	  .addr = 0x7f0011223344,
	  .rkey = 0x2a01,
	  .length = 4,
	  .imm = 0xdeadbeef,
	  .payload = (const uint8_t *)"\1\2\3\4",
	  .payload_bytes = 4}},
	{acknowledge,
	 sizeof(acknowledge),
	 {.eth_dst = ETH4(2),
	  .eth_src = ETH4(1),
	  .path = {.dst = IPV4(2), .src = IPV4(1), .hop_limit = 64, .source_port = 0xc000}},
	 {.opcode = 0x11,
	  .pkey = 0xffff,
	  .dest_qpn = 0x11,
	  .psn = 1,
	  .syndrome = AV_SYNDROME_ACK,
	  .msn = 7}},
	{datagram_with_immediate_ipv6,
	 sizeof(datagram_with_immediate_ipv6),
	 {.eth_dst = ETH6(2),
	  .eth_src = ETH6(1),
	  .path = {.dst = IPV6(2),
		   .src = IPV6(1),
		   .traffic_class = 3,
		   .flow_label = 0x54321,
		   .hop_limit = 64,
		   .source_port = 0xd000}},
	 {.opcode = 0x65,
	  .pkey = 0xffff,
	  .dest_qpn = 0xffffff,
	  .psn = 9,
	  .qkey = 0x11111111,
	  .src_qpn = 0x77,
	  .imm = 0x01020304,
	  .payload = (const uint8_t *)"ab",
	  .payload_bytes = 2}},
	{xrc_compare_swap_ipv6,
	 sizeof(xrc_compare_swap_ipv6),
	 {.eth_dst = ETH6(2),
	  .eth_src = ETH6(1),
	  .path = {.dst = IPV6(2), .src = IPV6(1), .hop_limit = 64, .source_port = 0xc123}},
	 {.opcode = 0xb3,
	  .pkey = 0x8001,
	  .dest_qpn = 0x20,
	  .ack_request = true,
	  .psn = 0xffffff,
	  .srqn = 0x99,
	  .addr = 0x1000,
	  .rkey = 5,
	  .swap_add = 6,
	  .compare = 7}},
};

TEST(written_as_others_write_them)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++) {
		uint8_t bytes[AV_FRAME_MAX];

		assert_int_equal(
			av_frame_put(&golden[i].frame, &golden[i].packet, bytes, sizeof(bytes)),
			golden[i].size);
		assert_memory_equal(bytes, golden[i].bytes, golden[i].size);
	}
}

TEST(read_as_others_write_them)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++) {
		struct av_packet p, wanted = golden[i].packet;
		struct av_frame f;

		assert_int_equal(frame_get(&f, &p, golden[i].bytes, golden[i].size), FRAME_OK);
		assert_memory_equal(&f, &golden[i].frame, sizeof(f));
		if (wanted.payload)
			assert_memory_equal(p.payload, wanted.payload, wanted.payload_bytes);
		wanted.payload = p.payload;
		assert_memory_equal(&p, &wanted, sizeof(p));
	}
}

/* Copies of exactly so many bytes, so that a sanitizer sees each byte read beyond. */
static enum frame_error get_exactly(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	enum frame_error error;
	struct av_packet p;
	struct av_frame f;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	error = frame_get(&f, &p, copy, size);
	free(copy);
	return error;
}

TEST(every_prefix_is_refused)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++) {
		for (size_t size = 0; size < golden[i].size; size++)
			assert_int_equal(get_exactly(golden[i].bytes, size), FRAME_SHORT);
		assert_int_equal(get_exactly(golden[i].bytes, golden[i].size), FRAME_OK);
	}
}

/* What may change on the way and is no part of the CRC, by offset in the frame and mask. */
static bool may_change(bool ipv4, size_t at, uint8_t bit)
{
	size_t ip = at - AV_ETH_BYTES, udp = ip - (ipv4 ? 20 : 40);

	if (at < AV_ETH_BYTES)
		return at < 12;
	if (!ipv4 && (ip == 7 || (ip > 0 && ip < 4) || (ip == 0 && bit < 0x10)))
		return true;
	return udp == 6 || udp == 7 || udp == 8 + 4;
}

TEST(every_bit_counts_but_those_that_may_change)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++) {
		bool ipv4 = golden[i].bytes[12] == 0x08;

		for (size_t bit = 0; bit < golden[i].size * 8; bit++) {
			uint8_t bytes[sizeof(xrc_compare_swap_ipv6)],
				mask = (uint8_t)(1 << bit % 8);

			memcpy(bytes, golden[i].bytes, golden[i].size);
			bytes[bit / 8] ^= mask;
			assert_int_equal(get_exactly(bytes, golden[i].size) == FRAME_OK,
					 may_change(ipv4, bit / 8, mask));
		}
	}
}

/* A CRC, bit by bit: IEEE 802.3, 3.2.9. */
static uint32_t divide(uint32_t rest, const uint8_t *bytes, size_t count)
{
	for (size_t bit = 0; bit < count * 8; bit++) {
		rest ^= bytes[bit / 8] >> bit % 8 & 1u;
		rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
	}
	return rest;
}

/* Of every length and alignment: libraries compute it in many ways. Masked fields are ones. */
TEST(the_crc_is_what_division_leaves)
{
	static const uint8_t link[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t ip[] = {0x45, 0xff, 0x10, 0,    0x12, 0x34, 0x40, 0,   0xff, 17,
				     0xff, 0xff, 10,   0,    0,	   1,	 10,   0,   0,	  2,
				     0xc0, 1,	 0x12, 0xb7, 0x0f, 0xec, 0xff, 0xff};
	static uint8_t bytes[16 + AV_MTU_MAX + AV_PACKET_HEADERS_MAX];

	for (size_t at = 0; at < 16; at++) {
		uint32_t rest = divide(divide(UINT32_MAX, link, sizeof(link)), ip, sizeof(ip));
		uint8_t *packet = bytes + at;

		for (size_t n = 1; at + n <= sizeof(bytes); n++) {
			packet[n - 1] = n == 5 ? 0xff : (uint8_t)(n * 167 ^ n >> 8);
			rest = divide(rest, packet + n - 1, 1);
			if (n >= 12)
				assert_int_equal(av_icrc(ip, packet, n), ~rest);
		}
	}
}

/* A router counts down the time to live, and mends the header checksum. */
TEST(time_to_live_may_change)
{
	uint8_t bytes[sizeof(acknowledge)];

	memcpy(bytes, acknowledge, sizeof(bytes));
	bytes[22]--;
	bytes[24]++; /* the checksum is the complement of a sum */
	assert_int_equal(get_exactly(bytes, sizeof(bytes)), FRAME_OK);
}

TEST(padding_of_the_link_is_no_part)
{
	uint8_t bytes[sizeof(acknowledge) + 3] = {0};

	memcpy(bytes, acknowledge, sizeof(acknowledge));
	assert_int_equal(get_exactly(bytes, sizeof(bytes)), FRAME_OK);
}

/* Give what was changed its checksums again. */
static void seal(uint8_t *bytes, size_t size)
{
	uint8_t *ip = bytes + AV_ETH_BYTES;
	bool ipv4 = bytes[12] == 0x08;
	uint8_t *packet = ip + (ipv4 ? 28 : 48);
	uint32_t sum = 0;

	ip[10] = ipv4 ? 0 : ip[10];
	ip[11] = ipv4 ? 0 : ip[11];
	for (int i = 0; ipv4 && i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = ipv4 ? (uint8_t)(sum >> 8) : ip[10];
	ip[11] = ipv4 ? (uint8_t)sum : ip[11];
	size -= AV_ICRC_BYTES;
	av_icrc_put(bytes + size, av_icrc(ip, packet, size - (size_t)(packet - bytes)));
}

/* One byte of a golden frame, with checksums that are right. */
static const struct {
	uint8_t row, at, value;
	enum frame_error error;
} changed[] = {
	{0, 12, 0x08, FRAME_OK},				   /* as it is */
	{0, 13, 0x06, FRAME_FOREIGN},				   /* ARP */
	{3, 13, 0xdc, FRAME_FOREIGN}, {0, 14, 0x46, FRAME_HEADER}, /* options */
	{0, 14, 0x55, FRAME_HEADER},  {3, 14, 0x50, FRAME_HEADER},
	{0, 17, 0x13, FRAME_HEADER}, /* less than its own header */
	{0, 17, 0x14, FRAME_HEADER}, /* no room for that of UDP */
	{0, 17, 0x1b, FRAME_HEADER},  {0, 17, 0x35, FRAME_SHORT},
	{3, 19, 0x07, FRAME_HEADER},  {3, 19, 0x29, FRAME_SHORT},
	{0, 20, 0x60, FRAME_HEADER},			       /* more fragments */
	{0, 20, 0xc0, FRAME_HEADER},			       /* reserved */
	{0, 20, 0x41, FRAME_HEADER},			       /* a later fragment */
	{0, 21, 0x01, FRAME_HEADER},  {0, 20, 0x00, FRAME_OK}, /* which may be cut into fragments */
	{0, 23, 0x06, FRAME_FOREIGN},			       /* TCP */
	{3, 20, 0x06, FRAME_FOREIGN}, {0, 36, 0x13, FRAME_FOREIGN}, /* another port */
	{0, 37, 0xb8, FRAME_FOREIGN}, {0, 39, 0x1f, FRAME_HEADER},  /* UDP says less than IP */
	{0, 39, 0x21, FRAME_HEADER},  {3, 59, 0x27, FRAME_HEADER},
	{0, 42, 0x1f, FRAME_PACKET},  {0, 43, 0x31, FRAME_PACKET},
};

TEST(one_byte_of_the_headers)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(changed); i++) {
		size_t size = golden[changed[i].row].size;
		uint8_t bytes[sizeof(xrc_compare_swap_ipv6)];

		memcpy(bytes, golden[changed[i].row].bytes, size);
		bytes[changed[i].at] = changed[i].value;
		seal(bytes, size);
		if (get_exactly(bytes, size) != changed[i].error)
			fail_msg("row %zu", i);
	}
}

/* The least that there is: a BTH, and its CRC. */
TEST(no_packet_is_shorter_than_its_header)
{
	const struct av_packet p = {.opcode = 0x04};
	uint8_t bytes[AV_FRAME_HEADERS_MAX + 16];
	size_t size = av_frame_put(&golden[0].frame, &p, bytes, sizeof(bytes));

	assert_int_equal(size, AV_ETH_BYTES + 20 + 8 + 12 + AV_ICRC_BYTES);
	assert_int_equal(get_exactly(bytes, size), FRAME_OK);
	bytes[17]--; /* of the IP packet, and of UDP */
	bytes[39]--;
	seal(bytes, size);
	assert_int_equal(get_exactly(bytes, size), FRAME_HEADER);
}

/* RFC 4038, 4.2. One such address alone is no sign of it. */
TEST(mapped_addresses_never_travel_in_ipv6)
{
	static const uint8_t mapped[16] = IPV4(1);

	for (unsigned int which = 0; which < 4; which++) {
		uint8_t bytes[sizeof(xrc_compare_swap_ipv6)];

		memcpy(bytes, xrc_compare_swap_ipv6, sizeof(bytes));
		if (which & 1)
			memcpy(bytes + AV_ETH_BYTES + 8, mapped, sizeof(mapped));
		if (which & 2)
			memcpy(bytes + AV_ETH_BYTES + 24, mapped, sizeof(mapped));
		seal(bytes, sizeof(bytes));
		assert_int_equal(get_exactly(bytes, sizeof(bytes)),
				 which == 3 ? FRAME_HEADER : FRAME_OK);
	}
}

TEST(an_unknown_opcode_makes_no_frame)
{
	const struct av_packet p = {.opcode = 0x1f};
	uint8_t bytes[AV_FRAME_MAX];

	assert_int_equal(av_frame_payload_at(&golden[0].frame, p.opcode), 0);
	assert_int_equal(av_frame_put(&golden[0].frame, &p, bytes, sizeof(bytes)), 0);
}

TEST(no_room_is_seen_before_writing)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++)
		for (size_t room = 0; room < golden[i].size; room++) {
			uint8_t *bytes = malloc(room ? room : 1);

			assert_non_null(bytes);
			assert_int_equal(
				av_frame_put(&golden[i].frame, &golden[i].packet, bytes, room), 0);
			free(bytes);
		}
}

TEST(the_largest_frame_fits)
{
	static const uint8_t payload[AV_MTU_MAX];
	struct av_packet p = {.opcode = 0x0b, .payload = payload, .payload_bytes = AV_MTU_MAX};
	uint8_t bytes[AV_FRAME_MAX];

	assert_int_not_equal(av_frame_put(&golden[4].frame, &p, bytes, sizeof(bytes)), 0);
}

#define UDP_AT(ipv4) (AV_ETH_BYTES + ((ipv4) ? 20u : 40u))

/* What UDP carries makes the same frame. */
TEST(wrapped_as_others_write_them)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++) {
		const uint8_t *wanted = golden[i].bytes;
		size_t size = golden[i].size, at = UDP_AT(wanted[12] == 0x08) + 8;
		uint8_t bytes[AV_FRAME_HEADERS_MAX];

		assert_int_equal(av_frame_wrap(&golden[i].frame, false, wanted + at, size - at,
					       bytes, sizeof(bytes)),
				 size);
		assert_memory_equal(bytes, wanted, size);
	}
}

#define DATAGRAM 100u

/* As much as there is room for, and no byte behind. */
TEST(wrapped_and_cut_off)
{
	uint8_t whole[AV_FRAME_HEADERS_MAX + DATAGRAM], datagram[DATAGRAM];

	memset(datagram, 0x5a, sizeof(datagram));
	for (size_t i = 0; i < AV_ARRAY_SIZE(golden); i++) {
		const struct av_frame *f = &golden[i].frame;
		size_t size = UDP_AT(golden[i].bytes[12] == 0x08) + 8 + DATAGRAM;

		assert_int_equal(av_frame_wrap(f, false, datagram, DATAGRAM, whole, sizeof(whole)),
				 size);
		for (size_t room = AV_FRAME_HEADERS_MAX; room <= size; room++) {
			uint8_t bytes[sizeof(whole)], untouched[sizeof(whole)];

			memset(bytes, 0xa5, sizeof(bytes));
			memset(untouched, 0xa5, sizeof(untouched));
			assert_int_equal(av_frame_wrap(f, false, datagram, DATAGRAM, bytes, room),
					 size);
			assert_memory_equal(bytes, whole, room);
			assert_memory_equal(bytes + room, untouched, sizeof(bytes) - room);
		}
	}
}

/* The sum over pseudo header, header and data is all ones: RFC 768. Data of any length. */
TEST(wrapped_with_a_checksum)
{
	uint8_t bytes[AV_FRAME_HEADERS_MAX + sizeof(acknowledge)];

	for (size_t n = 0; n <= sizeof(acknowledge); n++) {
		size_t size =
			av_frame_wrap(&golden[0].frame, true, acknowledge, n, bytes, sizeof(bytes));
		uint32_t sum = 17 + 8 + (uint32_t)n;

		assert_int_equal(size, UDP_AT(true) + 8 + n);
		bytes[size] = 0;
		for (size_t at = UDP_AT(true) - 8; at < size; at += 2)
			sum += (uint32_t)bytes[at] << 8 | bytes[at + 1];
		assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	}
}

/* What rdma-core's and the kernel's rules give, computed by hand. */
static const struct {
	uint32_t label, src, dest;
	uint16_t port;
} ports[] = {
	{0x00001, 0, 0, 0xc001}, {0x04000, 0, 0, 0xc001},	  {0xfffff, 0, 0, 0xffc0},
	{0, 0x11, 0x12, 0xc132}, {0, 0x100000, 0x100000, 0xc001}, {0, 0xffffff, 0xffffff, 0xff21},
};

TEST(source_ports)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(ports); i++)
		assert_int_equal(av_frame_source_port(ports[i].label, ports[i].src, ports[i].dest),
				 ports[i].port);
}

static const struct {
	uint8_t gid[16], mac[6];
} macs[] = {
	{IPV4(7), ETH4(7)},
	{{[10] = 0xff, 0xff, 0xfe, 1, 2, 3}, {0x02, 0xff, 0xfe, 1, 2, 3}},
	{{0xff, 0x0e, [10] = 0xff, 0xff, 239, 0x81, 2, 3}, {0x01, 0x00, 0x5e, 0x01, 2, 3}},
	{{[10] = 0xff, 0xff, 239, 0x81, 2, 3}, {0x01, 0x00, 0x5e, 0x01, 2, 3}},
	{{0xff, 0x02, [15] = 0x16}, {0x33, 0x33, 0, 0, 0, 0x16}},
	{{0xfe, 0x80, [8] = 0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55},
	 {0x00, 0x11, 0x22, 0x33, 0x44, 0x55}},
	{IPV6(9), ETH6(9)},
};

TEST(ethernet_addresses)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(macs); i++) {
		uint8_t mac[8] = {[6] = 0xa5, 0xa5};

		av_frame_mac(macs[i].gid, mac);
		assert_memory_equal(mac, macs[i].mac, 6);
		assert_memory_equal(mac + 6, "\xa5\xa5", 2);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
