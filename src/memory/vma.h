/* SPDX-License-Identifier: MIT */
/*
 * Finds single mappings, in this process or another, without the heap. (memory/mapped.h checks
 * whole ranges.)
 */
#ifndef AV_MEMORY_VMA_H
#define AV_MEMORY_VMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct av_vma {
	uint64_t begin, end; /* addresses */
	bool anonymous;	     /* private, not of a file */
	bool readable, writable, shared;
	uint64_t inode;	 /* of the file; 0: none */
	uint64_t offset; /* offset in the file */
};

/*
 * Open this process's list of mappings; the caller closes it. Return: -1 and errno on failure.
 * Makes the system call by number.
 */
int av_vma_open_own(void);

/**
 * av_vma_next() - the mapping that covers @addr, or else the next one above
 * @maps: descriptor of a process's "maps" in /proc
 *
 * Asks the kernel once on Linux 6.11 or later; otherwise reads the text. Async-signal-safe; takes
 * no memory; changes errno.
 * Return: false if there is none, or the kernel does not say
 */
AV_MUST_USE bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma);

/* The same from the text alone, for older kernels and tests. @maps may be any file. */
AV_MUST_USE bool av_vma_next_text(int maps, uint64_t addr, struct av_vma *vma);

#endif
