/* SPDX-License-Identifier: MIT */
#include "shared_heap/list.h"

#include <string.h>

uint32_t av_block_find(const struct av_block_list *l, uint64_t addr)
{
	uint32_t low = 0, high = l->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (l->block[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t av_block_gap_end(const struct av_block_list *l, uint32_t i)
{
	return i < l->count ? l->block[i].begin : l->end;
}

uint64_t av_block_gap(struct av_block_list *l, uint64_t bytes, uint64_t align, uint32_t *i,
		      uint32_t *left)
{
	while (l->count < AV_BLOCKS && *left) {
		uint64_t begin, at;

		if (*i > l->count)
			*i = 0;
		begin = *i ? l->block[*i - 1].end : l->begin;
		at = (begin + align - 1) & ~(align - 1);
		(*left)--;
		if (at >= begin && at <= l->end && bytes <= av_block_gap_end(l, *i) - begin &&
		    at - begin <= av_block_gap_end(l, *i) - begin - bytes)
			return at;
		(*i)++;
	}
	return 0;
}

void av_block_insert(struct av_block_list *l, uint32_t i, struct av_block b)
{
	memmove(&l->block[i + 1], &l->block[i], (l->count - i) * sizeof(b));
	l->block[i] = b;
	l->count++;
}

void av_block_erase(struct av_block_list *l, uint32_t i)
{
	l->count--;
	memmove(&l->block[i], &l->block[i + 1], (l->count - i) * sizeof(*l->block));
	if (l->cursor > i)
		l->cursor--;
}

bool av_block_split(struct av_block_list *l, uint64_t addr)
{
	uint32_t i = av_block_find(l, addr);
	struct av_block rest;

	if (i == l->count || l->block[i].begin >= addr)
		return true;
	if (l->count == AV_BLOCKS)
		return false;
	rest = l->block[i];
	rest.begin = addr;
	l->block[i].end = addr;
	av_block_insert(l, i + 1, rest);
	return true;
}
