/* SPDX-License-Identifier: MIT */
/*
 * The shared heap: memory of the program that is born shared (docs/SHARED_HEAP.md).
 *
 * It is a library of its own (src/shared_heap/), which "anyverbs run" preloads. It leaves memory
 * alone until the heap begins: when the process opens its first device. Every block is a shared
 * mapping of one memfd of the process, and lies in one window of the address space: byte n of the
 * file is at address begin + n.
 */
#ifndef AV_SEGMENT_SHARED_HEAP_H
#define AV_SEGMENT_SHARED_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/own_fd.h"
#include "segment/handout.h"
#include "segment/layout.h"

#define AV_SHARED_HEAP_BYTES (64ull << 30) /* of the sparse file, and of the window */

/* What the other library says of it. */
struct av_shared_heap {
	uint64_t begin; /* of the window */
	struct av_own_fd file;

	/*
	 * Fork handlers. The first one makes every block private, piece by piece, while no peer may
	 * store there: @exchange is called before and after each. @stay: the blocks stay where they
	 * are, and the child gets copies.
	 */
	void (*before_fork)(void (*exchange)(uint64_t addr, uint64_t bytes, bool begins),
			    bool stay);
	void (*after_fork_in_parent)(void);
	void (*after_fork_in_child)(void);

	/* The blocks of a range become private for good, in the same way. @keep: the file keeps its
	 * bytes, since a peer is stopped in the middle of reading them. */
	void (*leave)(uint64_t addr, uint64_t bytes,
		      void (*exchange)(uint64_t addr, uint64_t bytes, bool begins), bool keep);
};

/* Blocks of a range are about to be unmapped, or mapped over. Context: the program's thread, with
 * whatever locks it holds. */
typedef void av_shared_heap_leaving(uint64_t addr, uint64_t bytes);

/*
 * Defined by the other library, if it is there: have the heap begin; in a child of fork(), with a
 * file of its own. There are no blocks before, and the fork handlers are in place. No fork() goes
 * on. @leaving: is called from now on. Return: NULL: there can be none in this process
 */
__attribute__((weak, visibility("default"))) const struct av_shared_heap *
anyverbs_shared_heap(av_shared_heap_leaving *leaving);

/* By memory/heap_region.c: call that, if it is there. Return: as it does */
const struct av_shared_heap *av_shared_heap_begin(av_shared_heap_leaving *leaving);

/* This process's, from its beginning on; else NULL. No lock. */
const struct av_shared_heap *av_shared_heap_own(void);

/* Say in the head of an own segment where peers find it. */
void av_shared_heap_publish(struct av_seg_head *head);

#define AV_SHARED_HEAP_NOWHERE ((uint8_t *)1) /* in place of a mapping that cannot be had */

/*
 * Map the shared heap of a peer's process, whole, as av_handed_open() gets it, and keep where it
 * is. Context: any thread; several may come at once. Return: what is kept: where it is mapped, or
 * AV_SHARED_HEAP_NOWHERE
 */
uint8_t *av_shared_heap_map(const struct av_handed *what, const char *path,
			    _Atomic(uint8_t *) *kept);

/* The segment has no users any more: unmap, so that the memory goes with its process. */
void av_shared_heap_forget(_Atomic(uint8_t *) *kept);

#endif
