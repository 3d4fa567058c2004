/* SPDX-License-Identifier: MIT */
/*
 * The blocks of a window, in the order of their addresses. Knows addresses only. No locks: the
 * caller's mutex is held.
 */
#ifndef AV_SHARED_HEAP_LIST_H
#define AV_SHARED_HEAP_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_BLOCKS 32768u /* at a time; a process may have 65530 mappings */

enum av_block_kind {
	AV_BLOCK_SHARED,
	AV_BLOCK_PRIVATE, /* a fork() has made it so; its part of the file is not used again */
	AV_BLOCK_LOST,	  /* no block: a part of the file that is not used again */
};

struct av_block {
	uint64_t begin, end; /* addresses */
	enum av_block_kind kind;
	bool going;    /* it is being unmapped */
	bool spare;    /* given back, but mapped still */
	uint64_t copy; /* where a copy of it is for a child: while fork() runs */
};

struct av_block_list {
	struct av_block *block; /* room for AV_BLOCKS */
	uint32_t count;
	uint64_t begin, end; /* of the window */
	uint32_t cursor;     /* where the search for room goes on */
};

/* Index of the first block that ends above @addr. */
uint32_t av_block_find(const struct av_block_list *l, uint64_t addr);

/* Where the gap before block @i ends; it begins where block @i - 1 ends. */
uint64_t av_block_gap_end(const struct av_block_list *l, uint32_t i);

/* The next gap with room, from *@i on, which becomes the index of its block. Return: where, 0:
 * none;
 * *@left: gaps that have not been looked at */
uint64_t av_block_gap(struct av_block_list *l, uint64_t bytes, uint64_t align, uint32_t *i,
		      uint32_t *left);

/* Put one before block @i. */
void av_block_insert(struct av_block_list *l, uint32_t i, struct av_block b);
void av_block_erase(struct av_block_list *l, uint32_t i);

/* Have a block begin at @addr, if one is there. Return: false: there are too many */
AV_MUST_USE bool av_block_split(struct av_block_list *l, uint64_t addr);

#endif
