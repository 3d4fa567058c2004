/* SPDX-License-Identifier: MIT */
/* The shared heap: its lock, its blocks, what unmapping and fork() do to them; raw system calls. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/real_calls.h"
#include "segment/pages.h"

/* === blocks ====================================================================== */

/* The list of blocks, by address. These functions handle addresses only, with the lock held. */

#define AV_BLOCKS 32768u /* at most; a process may have 65530 mappings */

enum av_block_kind {
	AV_BLOCK_SHARED,
	AV_BLOCK_PRIVATE, /* for a fork(), or for good; its part of the file is never reused */
	AV_BLOCK_LOST,	  /* no block: a part of the file that is never reused */
};

struct av_block {
	uint64_t begin, end; /* addresses */
	enum av_block_kind kind;
	bool going;    /* it is being unmapped */
	bool spare;    /* free, but still mapped */
	uint64_t copy; /* during fork(): address of the copy for the child; else 0 */
};

struct av_block_list {
	struct av_block *block; /* room for AV_BLOCKS */
	uint32_t count;
	uint64_t begin, end; /* of the window */
	uint32_t cursor;     /* index at which the next search for a gap begins */
};

/* Index of the first block that ends above @addr; @count if there is none. */
uint32_t av_block_find(const struct av_block_list *l, uint64_t addr);

/* End of the gap before block @i; it begins at the end of block @i - 1, or of the window. */
uint64_t av_block_gap_end(const struct av_block_list *l, uint32_t i);

/*
 * Find the next gap with room, searching from before block *@i on, and around the end of the list.
 * *@i: out, the index of the block after the gap. *@left: gaps not yet visited.
 * Return: address; 0: none, or there are AV_BLOCKS blocks
 */
uint64_t av_block_gap(struct av_block_list *l, uint64_t bytes, uint64_t align, uint32_t *i,
		      uint32_t *left);

/* Insert a block before block @i. */
void av_block_insert(struct av_block_list *l, uint32_t i, struct av_block b);
void av_block_erase(struct av_block_list *l, uint32_t i);

/* Split any block around @addr, so that one begins there. Return: false: there are AV_BLOCKS */
AV_MUST_USE bool av_block_split(struct av_block_list *l, uint64_t addr);

/* === state ======================================================================= */

/*
 * The heap's lock. Its holder may lock it again, also in a signal handler. The lock word names its
 * holder from the moment of locking. The C library's recursive mutex does not: a signal handler at
 * that moment would wait for its own thread for ever. Locking and unlocking change errno.
 */
void av_heap_lock(void);
void av_heap_unlock(void);

/* Reset the lock in the child of fork(), whose only thread has another thread number. */
void av_heap_lock_in_child(void);

/*
 * Lock, until av_heap_exit(). Meanwhile the thread is not cancelled: malloc(3) and munmap(2) are no
 * cancellation points. av_heap_exit() restores errno.
 * Return: false: this thread is inside already, which a signal handler has interrupted. It gets the
 * kernel's memory, and what it unmaps is lost to the heap.
 */
AV_MUST_USE bool av_heap_enter(void);

void av_heap_exit(void);

/* Freed blocks that stay mapped, to be allocated again: fewer than this. */
#define AV_BLOCK_SPARES 16u

struct av_spare {
	uint64_t at, bytes; /* @at: 0: none */
};

/* Guarded by the lock. */
struct av_block_state {
	bool inside;	  /* a thread is between av_heap_enter() and av_heap_exit(); of it: */
	bool changing;	  /* it has blocked signals */
	int cancel;	  /* the cancellation state that it had */
	int error;	  /* the errno */
	sigset_t signals; /* the signal mask */
	struct av_block_list list;
	bool closed;				/* a fork() is under way: no new blocks */
	bool inherited;				/* the file is the parent's: no new blocks */
	bool stay;				/* the last fork() left the blocks shared */
	struct av_spare spare[AV_BLOCK_SPARES]; /* the oldest first */
	uint32_t spares;
	const struct av_shared_heap_user *user; /* constant once the heap has started */
};
extern struct av_block_state av_blocks;

/* The heap as the library of verbs sees it. @begin is 0 until the heap has started. */
extern struct av_shared_heap av_heap_shown;

/* Is the heap's descriptor still open? Programs close descriptors that they do not know. */
bool av_heap_has_file(void);

/* Map a part of the file at its address; with MAP_ANONYMOUS, new memory. Raw mmap(2). */
void *av_heap_map(uint64_t at, uint64_t bytes, int prot, int flags);

/* Free the file's memory in this range of addresses. It reads as zeros from then on. */
void av_heap_punch(uint64_t begin, uint64_t end);

static inline uint64_t av_heap_offset(uint64_t addr)
{
	return addr - av_heap_shown.begin;
}

static inline void *av_heap_pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/*
 * Blocks of the shared heap (segment/pages.h): shared mappings of one memfd, in one window of the
 * address space. The window is not reserved: a block is mapped only where nothing else is.
 *
 * Thread-safe: these functions take the lock. errno is kept. If a signal handler interrupts one of
 * them in its thread, these functions find no block in the handler; fork() works there.
 */

#define AV_BLOCK_PAGE 4096u

/*
 * Start the heap; in a child of fork(), with a file of its own. @user: av_block_unmap_begin() calls
 * it when it has found blocks. Return: NULL: this process cannot have a heap
 */
const struct av_shared_heap *av_block_begin(const struct av_shared_heap_user *user);

/* Has the heap started? Before that there is no window and no block. No lock. */
bool av_block_begun(void);

/* Is the address in the window? No lock. */
bool av_block_is_near(const void *p);

/*
 * Allocate a block, readable and writable. @bytes: rounded up to whole pages. @align: a power of
 * two. @zeros: it must be zeroed; else its content is undefined.
 * Return: NULL: no room or no shared heap; or the kernel must decide whether there is memory
 * (RLIMIT_DATA, more than the machine has). The caller then calls the function behind the hook.
 */
AV_MUST_USE void *av_block_take(size_t bytes, size_t align, bool zeros);

/* Bytes of the allocated block that begins at @p; 0: there is none. */
size_t av_block_bytes(const void *p);

/*
 * Resize the block that begins at @p in its place; unmaps what is left over. Return: false: it
 * cannot grow there, or @p is no block, and nothing has changed
 */
AV_MUST_USE bool av_block_resize(void *p, size_t bytes);

/* Free the block that begins at @p. A small shared one may stay, as a spare for av_block_take(). */
void av_block_free(void *p);

/* The address space is short: unmap all spare blocks. Return: true: there were some */
bool av_block_drop_spares(void);

/* memcpy() to new, zeroed memory. What was never written in a block takes no memory there. */
void av_block_copy(void *to, const void *from, size_t bytes);

/*
 * A range is about to be unmapped, or something else is to be mapped there. Return: true: there are
 * blocks in it; they are not allocated until the caller has called av_block_unmap_end() with the
 * outcome. false: there are none, or an outer caller has begun already
 */
AV_MUST_USE bool av_block_unmap_begin(const void *p, size_t bytes);

enum av_block_unmapped {
	AV_BLOCK_STAYS,	 /* the kernel refused: the blocks are still there */
	AV_BLOCK_GONE,	 /* nothing is there */
	AV_BLOCK_HIDDEN, /* something else is mapped there */
};

void av_block_unmap_end(const void *p, size_t bytes, enum av_block_unmapped how);

/* === forks ======================================================================= */

/*
 * clone(2), clone3(2) or fork(2) by number, with the arguments of syscall(2). The child has memory
 * of its own unless it shares all of its parent's. Return: as the system call
 */
long av_heap_clone(long number, const long a[6]);

/* === next ======================================================================== */

/* System calls that bypass our own hook of syscall(2). */

AV_FIND_NEXT(syscall);

#define AV_RAW(...) AV_NEXT_OF(syscall)(__VA_ARGS__)
