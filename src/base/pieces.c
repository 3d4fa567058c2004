/* SPDX-License-Identifier: MIT */
#include "base/pieces.h"

#define WORD_BYTES 8u

struct cutting {
	struct av_pieces *pieces;
	uint64_t dst;
	uintptr_t memory;
};

static void add(struct cutting *c, size_t bytes)
{
	if (bytes == 0)
		return;
	c->pieces->at[c->pieces->count++] = (struct iovec){.iov_base = (void *)c->memory, .iov_len = bytes};
	c->memory += bytes;
	c->dst += bytes;
}

/* The largest naturally aligned piece at @dst that is not longer than @bytes. */
static size_t natural(uint64_t dst, size_t bytes)
{
	size_t n = WORD_BYTES;

	while (n > bytes || dst % n)
		n /= 2;
	return n;
}

static void add_small(struct cutting *c, size_t bytes)
{
	while (bytes > 0) {
		size_t n = natural(c->dst, bytes);

		add(c, n);
		bytes -= n;
	}
}

void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes)
{
	struct cutting c = {pieces, dst, (uintptr_t)memory};
	size_t head = -dst % AV_PIECES_STEP, body;

	pieces->count = 0;
	head = head < bytes ? head : bytes;
	body = (bytes - head) / AV_PIECES_STEP * AV_PIECES_STEP;
	if (body > 0 && body + head == bytes)
		body -= AV_PIECES_STEP; /* so that the last word is a piece of its own */
	add_small(&c, head);
	add(&c, body);
	add_small(&c, bytes - head - body);
}
