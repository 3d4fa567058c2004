/* SPDX-License-Identifier: MIT */
/*
 * Any bytes, twice: as a packet, and as a frame whose lengths, checksum and CRC are put right
 * first, since chance never gets those right. Whatever is understood must survive being written and
 * read again, and its CRC must be right without the headers around the packet.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "lib/frame_get.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All but the address of the payload. */
static int same(const struct av_packet *a, const struct av_packet *b)
{
	struct av_packet x = *a, y = *b;

	x.payload = y.payload = NULL;
	return memcmp(&x, &y, sizeof(x)) == 0 &&
	       (!a->payload_bytes || memcmp(a->payload, b->payload, a->payload_bytes) == 0);
}

static void packet(const uint8_t *data, size_t size)
{
	uint8_t bytes[AV_PACKET_HEADERS_MAX + 512] = {0};
	struct av_packet p, again;
	uint8_t *at;

	if (av_packet_get(&p, data, size) != AV_PACKET_OK)
		return;
	at = bytes + av_packet_put_headers(&p, bytes);
	if (p.payload_bytes)
		memcpy(at, p.payload, p.payload_bytes);
	CHECK(av_packet_put_behind(&p, at + p.payload_bytes) == bytes + size);
	CHECK(av_packet_get(&again, bytes, size) == AV_PACKET_OK && same(&p, &again));
}

/* Make the frame one that could be. */
static void mend(uint8_t *bytes, size_t size)
{
	size_t ip = bytes[0] & 1 ? 40 : 20, udp = AV_ETH_BYTES + ip;
	uint32_t sum = 0;

	if (size < udp + 8 + 12 + AV_ICRC_BYTES)
		return;
	av_put16(bytes + 12, ip == 20 ? 0x0800 : 0x86dd);
	bytes[14] = ip == 20 ? 0x45 : (uint8_t)(0x60 | (bytes[14] & 15));
	av_put16(bytes + (ip == 20 ? 16 : 18), (uint32_t)(size - (ip == 20 ? AV_ETH_BYTES : udp)));
	bytes[ip == 20 ? 23 : 20] = 17;
	if (ip == 20) {
		av_put16(bytes + 20, 0x4000);
		av_put16(bytes + 24, 0);
		for (size_t i = 0; i < ip; i += 2)
			sum += av_get16(bytes + AV_ETH_BYTES + i);
		sum = (sum & 0xffff) + (sum >> 16);
		av_put16(bytes + 24, ~(sum + (sum >> 16)));
	}
	av_put16(bytes + udp + 2, AV_ROCE_PORT);
	av_put16(bytes + udp + 4, (uint32_t)(size - udp));
	av_icrc_put(bytes + size - AV_ICRC_BYTES,
		    av_icrc(bytes + AV_ETH_BYTES, bytes + udp + 8, size - udp - 8 - AV_ICRC_BYTES));
}

static void without_headers(const struct av_frame *f, uint8_t opcode, const uint8_t *bytes,
			    size_t size)
{
	size_t at = av_frame_payload_at(f, opcode) - av_packet_header_bytes(opcode);
	size_t end = size - AV_ICRC_BYTES;
	struct av_net_path path = f->path;

	path.identification = 0;
	CHECK(av_icrc_fits(&path, bytes + at, end - at, av_icrc_get(bytes + end)));
	CHECK(path.identification == f->path.identification);
}

static void frame(const uint8_t *data, size_t size)
{
	uint8_t bytes[AV_FRAME_MAX];
	struct av_packet p, again;
	struct av_frame f, f_again;
	size_t n;

	if (frame_get(&f, &p, data, size) != FRAME_OK)
		return;
	n = av_frame_put(&f, &p, bytes, sizeof(bytes));
	CHECK(n > 0 && n <= size);
	CHECK(frame_get(&f_again, &again, bytes, n) == FRAME_OK);
	CHECK(memcmp(&f, &f_again, sizeof(f)) == 0 && same(&p, &again));
	without_headers(&f, p.opcode, bytes, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *mended;

	if (size > 512)
		return 0;
	packet(data, size);
	frame(data, size);
	mended = malloc(size ? size : 1); /* of exactly that size, for AddressSanitizer */
	if (!mended)
		return 0;
	memcpy(mended, data, size);
	if (size)
		mend(mended, size);
	frame(mended, size);
	free(mended);
	return 0;
}
