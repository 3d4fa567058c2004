/* SPDX-License-Identifier: MIT */
#include "copy/pieces.h"

static void add(struct av_pieces *p, uintptr_t memory, size_t bytes)
{
	if (bytes > 0)
		p->at[p->count++] = (struct iovec){.iov_base = (void *)memory, .iov_len = bytes};
}

static size_t up_to_boundary(uint64_t dst, size_t boundary, size_t bytes)
{
	const size_t gap = -dst % boundary;

	return gap < bytes ? gap : bytes;
}

void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes)
{
	const uintptr_t start = (uintptr_t)memory;
	const size_t word = up_to_boundary(dst, AV_PIECES_WORD, bytes);
	const size_t line = up_to_boundary(dst, AV_PIECES_LINE, bytes);
	const size_t behind = bytes - line;
	const size_t lines = behind > 0 ? (behind - 1) / AV_PIECES_LINE * AV_PIECES_LINE : 0;

	pieces->count = 0;
	add(pieces, start, word);
	add(pieces, start + word, line - word);
	add(pieces, start + line, lines);
	add(pieces, start + line + lines, behind - lines);
}
