/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <string.h>

#include "wire/packet.h"

/* @index: which of those that were joined. Their sender's kernel may have numbered them so. */
static bool has_its_icrc(struct av_gro_split *cut, const uint8_t *from, size_t bytes, size_t index)
{
	struct av_icrc_path path = {.source_port = cut->source_port,
				    .identification = (uint16_t)index};

	memcpy(path.src, cut->path.src, sizeof(path.src));
	memcpy(path.dst, cut->path.dst, sizeof(path.dst));
	if (!av_icrc_fits(&path, from, bytes, av_icrc_get(from + bytes)))
		return false;
	cut->identification = path.identification;
	return true;
}

bool av_gro_next(struct av_gro_split *cut, struct av_net_packet *p, enum av_net_count *fault)
{
	size_t segment = cut->segment ? cut->segment : cut->count, rest = cut->count - cut->at;
	size_t bytes = rest < segment ? rest : segment, index;
	const uint8_t *from = cut->bytes + cut->at;

	if (rest == 0)
		return false;
	index = cut->at / segment;
	cut->at += bytes;
	p->path = cut->path;
	p->congested = cut->congested;
	if (bytes < AV_ICRC_BYTES ||
	    av_packet_get(&p->packet, from, bytes - AV_ICRC_BYTES) != AV_PACKET_OK)
		*fault = AV_NET_SHORT;
	else if (!has_its_icrc(cut, from, bytes - AV_ICRC_BYTES, index))
		*fault = AV_NET_BAD_CRC;
	else
		*fault = AV_NET_COUNTS;
	return true;
}
