/* SPDX-License-Identifier: MIT */
#include "wire/icrc.h"

#include <string.h>

#include "wire/frame.h"

static size_t put_headers(const struct av_icrc_path *path, size_t bytes, uint8_t *to)
{
	struct av_frame f = {.identification = path->identification,
			     .source_port = path->source_port};

	memcpy(f.src, path->src, sizeof(f.src));
	memcpy(f.dst, path->dst, sizeof(f.dst));
	return av_frame_put_ip(&f, bytes, to);
}

uint32_t av_icrc_of(const struct av_icrc_path *path, const uint8_t *packet, size_t bytes)
{
	uint8_t headers[AV_IP_HEADERS_MAX];

	(void)put_headers(path, bytes, headers);
	return av_icrc(headers, packet, bytes);
}

/* --- solving for the identification ---------------------------------------------- */

/*
 * A CRC is a polynomial over GF(2) modulo P. Its highest bit is the coefficient of x^0, its lowest
 * that of x^31.
 */
#define P   0xedb88320u /* without its x^32 */
#define ONE 0x80000000u

/*
 * A change of the identification, C(x), before n more bytes changes the CRC by
 * C(x) * x^(8n + 32) mod P. So C(x) is the CRC's change, times x^-(8n + 32).
 */

/* x^-(8 * 2^i): each is the square of the one before. */
static const uint32_t back_bytes[] = {
	0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d,
	0x5139de12, 0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8,
	0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
};

#define BACK_HEADERS 0xf2949dc4u /* x^-(8 * 22 + 32): rest of the IPv4 header, UDP header, CRC */

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		product ^= b & -(a >> 31);
		b = b >> 1 ^ (P & -(b & 1));
	}
	return product;
}

static uint32_t back(uint32_t change, size_t bytes)
{
	change = multiply(change, BACK_HEADERS);
	for (size_t i = 0; i < AV_ARRAY_SIZE(back_bytes); i++)
		if (bytes >> i & 1)
			change = multiply(change, back_bytes[i]);
	return change;
}

bool av_icrc_fits(struct av_icrc_path *path, const uint8_t *packet, size_t bytes, uint32_t icrc)
{
	uint8_t headers[AV_IP_HEADERS_MAX];
	bool ipv4 = put_headers(path, bytes, headers) < AV_IP_HEADERS_MAX;
	uint32_t change = icrc ^ av_icrc(headers, packet, bytes);

	if (!change || !ipv4)
		return !change;
	change = back(change, bytes);
	if (change & 0xffff) /* x^16 or more: not of the identification alone */
		return false;
	path->identification ^= (uint16_t)((change >> 16 & 0xff) << 8 | change >> 24);
	return true;
}
