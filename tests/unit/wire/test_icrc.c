/* SPDX-License-Identifier: MIT */
/* The invariant CRC without the headers that it covers. Frames say what is right. */
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/packet.h"

#define BTH_BYTES  12
#define BYTES_MAX  4200	 /* more than the largest packet */
#define BYTES_HUGE 65472 /* about the largest datagram */

/* clang-format off */
static const struct {
	uint8_t src[16], dst[16];
	bool ipv4;
} ends[] = {
	{{[10] = 0xff, 0xff, 192, 0, 2, 1}, {[10] = 0xff, 0xff, 198, 51, 100, 7}, true},
	{{[10] = 0xff, 0xff, 10, 255, 0, 255}, {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}, true},
	{{0x20, 0x01, 0x0d, 0xb8, [15] = 1}, {0x20, 0x01, 0x0d, 0xb8, 0xff, [15] = 2}, false},
	{{0xfe, 0x80, [8] = 2, [15] = 1}, {0xff, 0x02, [15] = 0x16}, false},
	{{[10] = 0xff, 0xff, 192, 0, 2, 1}, {0x20, 0x01, 0x0d, 0xb8, [15] = 2}, false},
};
/* clang-format on */

static uint8_t payload[BYTES_HUGE];

/* A packet in a frame, which is valid until the next one. */
struct framed {
	struct av_net_path path;
	uint8_t *packet;
	size_t bytes;
	uint32_t icrc;
};

/* What the CRC leaves out differs from length to length, as does what it covers. */
static struct framed frame(size_t row, size_t payload_bytes, uint16_t identification)
{
	static uint8_t bytes[AV_FRAME_HEADERS_MAX + BYTES_HUGE + AV_ICRC_BYTES];
	uint32_t n = (uint32_t)payload_bytes;
	struct av_frame f = {.path = {.traffic_class = (uint8_t)n,
				      .hop_limit = (uint8_t)(n + 1),
				      .flow_label = n * 77,
				      .identification = identification,
				      .source_port = (uint16_t)(0xc000 + n)}};
	struct av_packet p = {.opcode = 0x04,
			      .fecn = n & 1,
			      .becn = n & 2,
			      .dest_qpn = n * 4099,
			      .psn = n,
			      .payload = payload,
			      .payload_bytes = n};
	struct framed made = {.path = {.identification = identification}};
	size_t at;

	memcpy(f.path.src, ends[row].src, 16);
	memcpy(f.path.dst, ends[row].dst, 16);
	at = av_frame_put(&f, &p, bytes, sizeof(bytes)) - AV_ICRC_BYTES;
	memcpy(made.path.src, f.path.src, 16);
	memcpy(made.path.dst, f.path.dst, 16);
	made.path.source_port = f.path.source_port;
	made.bytes = BTH_BYTES + n + av_packet_padding(n);
	made.packet = bytes + at - made.bytes;
	made.icrc = av_icrc_get(bytes + at);
	return made;
}

static bool fits(const struct framed *p)
{
	struct av_net_path path = p->path;

	return av_icrc_fits(&path, p->packet, p->bytes, p->icrc);
}

/* Does the solver get from @wrong to the identification that it has? */
static bool solved_from(const struct framed *p, uint16_t wrong)
{
	struct av_net_path path = p->path;

	path.identification = wrong;
	return av_icrc_fits(&path, p->packet, p->bytes, p->icrc) &&
	       path.identification == p->path.identification;
}

static int fill_payload(void **unused)
{
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 167 ^ i >> 7);
	return 0;
}

TEST(as_in_a_frame)
{
	for (size_t row = 0; row < AV_ARRAY_SIZE(ends); row++)
		for (size_t n = 0; BTH_BYTES + n <= BYTES_MAX; n++) {
			struct framed p = frame(row, n, (uint16_t)(n * 40503));

			assert_int_equal(av_icrc_of(&p.path, p.packet, p.bytes), p.icrc);
			assert_true(fits(&p));
		}
}

TEST(solved_at_every_length)
{
	for (size_t row = 0; row < AV_ARRAY_SIZE(ends); row++)
		for (size_t n = 0; ends[row].ipv4 && BTH_BYTES + n <= BYTES_MAX; n++) {
			struct framed p = frame(row, n, (uint16_t)(n * 40503));

			assert_true(solved_from(&p, 0));
			assert_true(solved_from(&p, (uint16_t)~p.path.identification));
		}
}

/* Strangers send any number of bytes. */
TEST(solved_at_lengths_that_no_packet_has)
{
	static const size_t bytes[] = {13, 14, 15, 8192, 16384, 32768, BYTES_HUGE};
	struct framed p = frame(0, BYTES_HUGE - BTH_BYTES, 0x1234);

	for (size_t i = 0; i < AV_ARRAY_SIZE(bytes); i++) {
		p.bytes = bytes[i];
		p.icrc = av_icrc_of(&p.path, p.packet, p.bytes);
		assert_true(solved_from(&p, 0xfedc));
	}
}

TEST(every_identification_is_found)
{
	static const size_t payload_bytes[] = {0, 1, 1024};

	for (size_t i = 0; i < AV_ARRAY_SIZE(payload_bytes); i++) {
		struct framed p = frame(0, payload_bytes[i], 0);

		for (uint32_t id = 0; id <= UINT16_MAX; id++) {
			p.path.identification = (uint16_t)id;
			p.icrc = av_icrc_of(&p.path, p.packet, p.bytes);
			assert_true(solved_from(&p, 0x5aa5));
		}
	}
}

/* Bits that the CRC leaves out: congestion and reserved bits. */
static bool left_out(size_t bit)
{
	return bit / 8 == 4;
}

/*
 * No identification explains a single wrong bit in less than 26 KiB: x^16 and more never cancel in
 * x^-k before k = 214,135.
 */
TEST(every_single_bit_counts)
{
	static const size_t payload_bytes[] = {0, 2, 60, BYTES_MAX - BTH_BYTES};

	for (size_t i = 0; i < AV_ARRAY_SIZE(payload_bytes); i++) {
		struct framed p = frame(0, payload_bytes[i], 0x0801);

		for (size_t bit = 0; bit < p.bytes * 8; bit++) {
			p.packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_equal(fits(&p), left_out(bit));
			p.packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		for (int bit = 0; bit < 32; bit++) {
			p.icrc ^= 1u << bit;
			assert_false(fits(&p));
			p.icrc ^= 1u << bit;
		}
	}
}

TEST(every_bit_of_the_path_counts)
{
	for (size_t row = 0; row < AV_ARRAY_SIZE(ends); row++) {
		struct framed p = frame(row, 9, 7);
		size_t from = ends[row].ipv4 ? 12 : 0; /* before: the form of the address */

		for (size_t bit = from * 8; bit < sizeof(p.path.src) * 8; bit++) {
			p.path.src[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_false(fits(&p));
			p.path.src[bit / 8] ^= (uint8_t)(1 << bit % 8);
			p.path.dst[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_false(fits(&p));
			p.path.dst[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		for (int bit = 0; bit < 16; bit++) {
			p.path.source_port ^= (uint16_t)(1 << bit);
			assert_false(fits(&p));
			p.path.source_port ^= (uint16_t)(1 << bit);
		}
	}
}

/* Whatever is found must be the truth, and what is not found must leave the path as it was. */
TEST(wrong_crcs_by_chance)
{
	struct framed p = frame(0, 100, 0x1111);
	uint32_t accepted = 0, value = 1;

	for (int i = 0; i < 1 << 18; i++) {
		struct av_net_path path = p.path;

		value = value * 1664525 + 1013904223;
		if (av_icrc_fits(&path, p.packet, p.bytes, value)) {
			accepted++;
			assert_int_equal(av_icrc_of(&path, p.packet, p.bytes), value);
		} else {
			assert_memory_equal(&path, &p.path, sizeof(path));
		}
	}
	assert_in_range(accepted, 1, 16); /* about one of 2^16 */
}

/* What another identification would explain in IPv4 is a wrong CRC in IPv6. */
TEST(ipv6_has_no_identification)
{
	struct framed p4 = frame(0, 100, 1), p6;
	uint32_t change = p4.icrc;

	p4.path.identification = 2;
	change ^= av_icrc_of(&p4.path, p4.packet, p4.bytes);
	for (size_t row = 0; row < AV_ARRAY_SIZE(ends); row++) {
		p6 = frame(row, 100, 1);
		p6.icrc ^= change;
		assert_int_equal(fits(&p6), ends[row].ipv4);
	}
}

int main(void)
{
	return run_cases(fill_payload, NULL);
}
