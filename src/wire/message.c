/* SPDX-License-Identifier: MIT */
#include "wire/message.h"

static enum av_place place_of(uint32_t index, uint32_t count)
{
	if (count == 1)
		return AV_PLACE_ONLY;
	if (index == 0)
		return AV_PLACE_FIRST;
	return index == count - 1 ? AV_PLACE_LAST : AV_PLACE_MIDDLE;
}

int64_t av_wire_packet(const struct av_wire_message *m, uint32_t index, struct av_packet *p)
{
	uint32_t count = av_wire_packets(m->bytes, m->mtu);
	uint64_t offset = (uint64_t)index * m->mtu;
	bool last = index == count - 1;
	int opcode = av_opcode_find(m->service, m->operation, place_of(index, count),
				    last ? m->tail : AV_TAIL_NONE);

	if (opcode < 0)
		return -1;
	*p = m->head;
	p->opcode = (uint8_t)opcode;
	p->psn = av_psn_after(m->head.psn, index);
	p->solicited = last && m->head.solicited;
	p->ack_request = last && m->head.ack_request;
	p->payload = NULL;
	p->payload_bytes = (uint32_t)(last ? m->bytes - offset : m->mtu);
	return (int64_t)offset;
}
