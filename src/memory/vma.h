/* SPDX-License-Identifier: MIT */
/* Finding mappings one at a time, in this process or another, without the heap. (memory/mapped.h
 * judges ranges.) */
#ifndef AV_MEMORY_VMA_H
#define AV_MEMORY_VMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct av_vma {
	uint64_t begin, end; /* addresses */
	bool anonymous;	     /* private and of no file */
	bool readable, writable, shared;
	uint64_t inode;	 /* of the file; 0: none */
	uint64_t offset; /* in the file */
};

/* This process' own list, to be closed by the caller; -1 and errno. A system call by number, as
 * below. */
int av_vma_open_own(void);

/**
 * av_vma_next() - the mapping that covers @addr, or else the first one above it
 * @maps: descriptor of a process' "maps" in /proc
 *
 * One question to the kernel since 6.11, else the text is read. Async-signal-safe; takes no memory;
 * changes errno. Return:  false if there is none, or the kernel does not say
 */
AV_MUST_USE bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma);

/* The same from the text alone; @maps may be any file. For older kernels, and tests. */
AV_MUST_USE bool av_vma_next_text(int maps, uint64_t addr, struct av_vma *vma);

#endif
