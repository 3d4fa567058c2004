/* SPDX-License-Identifier: MIT */
#include "base/pieces.h"

static size_t add(struct av_pieces *p, uintptr_t memory, size_t bytes)
{
	if (bytes > 0)
		p->at[p->count++] = (struct iovec){.iov_base = (void *)memory, .iov_len = bytes};
	return bytes;
}

void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes)
{
	uintptr_t at = (uintptr_t)memory;
	size_t head = -dst % AV_PIECES_LINE, body = 0;

	pieces->count = 0;
	head = head < bytes ? head : bytes;
	if (bytes > head)
		body = (bytes - head - 1) / AV_PIECES_LINE * AV_PIECES_LINE;
	at += add(pieces, at, head);
	at += add(pieces, at, body);
	add(pieces, at, bytes - head - body);
}
