/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as datagrams that the kernel has joined, of any length each: as they are, and with the
 * ICRC put right, since chance never gets that right.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "wire/packet.h"

#define HEAD	  4 /* bytes of the input that say how the rest came */
#define BTH_BYTES 12

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void cut_all(struct av_gro_split cut)
{
	const size_t segment = cut.segment ? cut.segment : cut.count;
	size_t all = 0;
	enum av_datagram_error error;
	struct av_net_path path;
	struct av_packet p;

	for (; av_gro_next(&cut, &path, &p, &error); all++) {
		CHECK(error == AV_DATAGRAM_OK || error == AV_DATAGRAM_SHORT ||
		      error == AV_DATAGRAM_BAD_CRC);
		if (error != AV_DATAGRAM_OK)
			continue;
		CHECK(p.payload >= cut.bytes &&
		      p.payload + p.payload_bytes <= cut.bytes + cut.count);
	}
	CHECK(cut.at == cut.count && all == (segment ? (cut.count + segment - 1) / segment : 0));
}

/* Make each datagram one that its sender meant so. */
static void mend(const struct av_gro_split *cut, uint8_t *bytes)
{
	size_t segment = cut->segment ? cut->segment : cut->count;

	for (size_t at = 0; at < cut->count; at += segment) {
		size_t rest = cut->count - at, n = rest < segment ? rest : segment;
		struct av_net_path path = cut->path;

		if (n < BTH_BYTES + AV_ICRC_BYTES)
			continue;
		n -= AV_ICRC_BYTES;
		path.identification = bytes[at];
		av_icrc_put(bytes + at + n, av_icrc_of(&path, bytes + at, n));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct av_gro_split cut = {.path.source_port = AV_ROCE_PORT};
	uint8_t *bytes;

	if (size < HEAD || size > 1024)
		return 0;
	cut.count = size - HEAD;
	cut.segment = data[0];
	if (data[1] & 1) /* IPv4 */
		memset(cut.path.src + 10, 0xff, 2);
	memcpy(cut.path.dst, cut.path.src, sizeof(cut.path.dst));
	cut.path.src[15] = data[2];
	cut.path.dst[15] = data[3];
	bytes = malloc(cut.count ? cut.count : 1); /* of that size, for AddressSanitizer */
	if (!bytes)
		return 0;
	memcpy(bytes, data + HEAD, cut.count);
	cut.bytes = bytes;
	cut_all(cut);
	mend(&cut, bytes);
	cut_all(cut);
	free(bytes);
	return 0;
}
