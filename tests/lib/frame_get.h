/* SPDX-License-Identifier: MIT */
/* Reads the frames that a capture has written (wire/packet.h). The bytes are untrusted. */
#ifndef TEST_FRAME_GET_H
#define TEST_FRAME_GET_H

#include "base/compiler.h"
#include "wire/packet.h"

enum frame_error {
	FRAME_OK,
	FRAME_SHORT,   /* ends within its headers, or before the end that they state */
	FRAME_FOREIGN, /* not RoCEv2: another protocol or port */
	FRAME_HEADER,  /* inconsistent IP or UDP header, or one that RoCEv2 does not allow */
	FRAME_CRC,     /* the invariant CRC is wrong */
	FRAME_PACKET,  /* has no valid packet */
};

/*
 * Decode a frame. Checks the ICRC and the checksum of an IPv4 header, but no UDP checksum.
 * @f, @p: out, valid only with FRAME_OK; the payload points into @from
 * @from: @bytes, perhaps with the link's padding
 */
AV_MUST_USE enum frame_error frame_get(struct av_frame *f, struct av_packet *p, const uint8_t *from,
				       size_t bytes);

#endif
