/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include "wire/packet.h"

bool av_gro_next(struct av_gro_split *cut, struct av_net_packet *p, enum av_net_count *fault)
{
	size_t segment = cut->segment ? cut->segment : cut->count, rest = cut->count - cut->at;
	size_t bytes = rest < segment ? rest : segment;
	const uint8_t *from = cut->bytes + cut->at;

	if (rest == 0)
		return false;
	p->qp = (struct av_qp_location){0};
	p->path = cut->path;
	p->path.identification = (uint16_t)(cut->at / segment); /* so its kernel may number them */
	cut->at += bytes;
	if (bytes < AV_ICRC_BYTES ||
	    av_packet_get(&p->packet, from, bytes - AV_ICRC_BYTES) != AV_PACKET_OK)
		*fault = AV_NET_SHORT;
	else if (!av_icrc_fits(&p->path, from, bytes - AV_ICRC_BYTES,
			       av_icrc_get(from + bytes - AV_ICRC_BYTES)))
		*fault = AV_NET_BAD_CRC;
	else
		*fault = AV_NET_COUNTS;
	return true;
}
