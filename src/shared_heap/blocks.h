/* SPDX-License-Identifier: MIT */
/* The shared heap: which blocks it has, where there is room, and what a fork does to it. */
#ifndef AV_SHARED_HEAP_BLOCKS_H
#define AV_SHARED_HEAP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/real_calls.h"
#include "segment/pages.h"

/* === blocks ====================================================================== */

/*
 * The heap's lock. The thread that holds it may lock it again, in a signal's handler, too. It knows
 * its holder from the first moment on; the C library's recursive mutex does not while it is being
 * taken, and a handler that came then would wait for its own thread for ever. errno is kept.
 */
void av_heap_lock(void);
void av_heap_unlock(void);

/* In the child of fork(), whose only thread has another number: nobody holds it. */
void av_heap_lock_in_child(void);

/*
 * The blocks of a window, in the order of their addresses. Knows addresses only: the caller holds
 * the lock.
 */

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

/*
 * Blocks of the shared heap (segment/pages.h): shared mappings of one memfd, in one window of
 * the address space. The window itself is not reserved: a block is only put where nothing is.
 *
 * Thread-safe: all of this takes the lock. errno is kept. Of a handler that interrupts one of
 * these, another one finds no block; fork() works there.
 */

#define AV_BLOCK_PAGE 4096u

/*
 * Have the heap begin; in a child of fork(), with a file of its own. @leaving: called whenever
 * av_block_leave() finds blocks. Return: NULL: there can be none
 */
const struct av_shared_heap *av_block_begin(av_shared_heap_leaving *leaving);

/* Has the heap begun? Before, there is no window, and nobody is given a block. No lock. */
bool av_block_begun(void);

/* Is that address in the window? No lock. */
bool av_block_is_near(const void *p);

/**
 * av_block_take() - a new block, to be read and written
 * @bytes: rounded up to whole pages
 * @align: a power of two
 * @zeros: what is in it is zeros, not anything
 *
 * Return: NULL: there is no room, no shared heap in this process, or it is for the kernel to say
 * whether there is memory
 */
AV_MUST_USE void *av_block_take(size_t bytes, size_t align, bool zeros);

/* Bytes of the block that begins at @p; 0: there is none. */
size_t av_block_bytes(const void *p);

/* Have the block that begins at @p end elsewhere. Return: false: something is in the way */
AV_MUST_USE bool av_block_resize(void *p, size_t bytes);

/* Give back the block that begins at @p. It may stay mapped for the next one who takes one. */
void av_block_free(void *p);

/* The address space is short: unmap what is only kept for the next one. Return: there was some */
bool av_block_drop_spares(void);

/*
 * memcpy() to new memory, of zeros. What was never written in a block is not copied, and takes no
 * memory.
 */
void av_block_copy(void *to, const void *from, size_t bytes);

/**
 * av_block_leave() - a range is about to be unmapped, or mapped over
 *
 * Return: there are blocks in it, which nobody is given until av_block_left(). If not, that is not
 * called: there are none, or the caller is inside of another one's unmapping.
 */
AV_MUST_USE bool av_block_leave(const void *p, size_t bytes);

enum av_block_end {
	AV_BLOCK_STAYS,	 /* the kernel refused */
	AV_BLOCK_GONE,	 /* nothing is there */
	AV_BLOCK_HIDDEN, /* something else is */
};

void av_block_left(const void *p, size_t bytes, enum av_block_end how);

/* === next ======================================================================== */

/* System calls past our own hook of syscall(2). */

AV_FIND_NEXT(syscall);

#define AV_RAW(...) AV_NEXT_OF(syscall)(__VA_ARGS__)

#endif
