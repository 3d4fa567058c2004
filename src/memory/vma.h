/* SPDX-License-Identifier: MIT */
/* Finds mappings, in this process or another, without the heap. */
#ifndef AV_MEMORY_VMA_H
#define AV_MEMORY_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/file.h"

/* Bytes of a page of this system, a power of two. Context: any; no lock, no heap */
size_t av_page_bytes(void);

struct av_vma {
	uint64_t begin, end; /* addresses */
	bool anonymous;	     /* private, not of a file */
	bool readable, writable, executable, shared;
	uint64_t inode;	 /* of the file; 0: none */
	uint64_t dev;	 /* its device, as in struct stat */
	uint64_t offset; /* offset in the file */
};

/* By number; the caller closes it. Return: -1 and errno on failure. */
int av_vma_open_own(void);

/*
 * The mapping that covers @addr, or else the next one above. @maps: descriptor of a process's
 * "maps" in /proc. Asks the kernel once on Linux 6.11 or later; otherwise reads the text.
 * Async-signal-safe; no heap; changes errno. Return: false if there is none, or the kernel does not
 * say.
 */
AV_MUST_USE bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma);

/* As mmap() takes them. */
static inline int av_vma_rights(const struct av_vma *vma)
{
	return (vma->readable ? PROT_READ : 0) | (vma->writable ? PROT_WRITE : 0) |
	       (vma->executable ? PROT_EXEC : 0);
}

/* The same of a range without holes, if all of its mappings have the same rights; -1: it is not. */
AV_MUST_USE int av_vma_rights_of(int maps, uint64_t addr, uint64_t bytes);

/* Is it a mapping of this file? Numbers of inodes are one device's. */
static inline bool av_vma_is_of(const struct av_vma *vma, const struct av_own_fd *file)
{
	return vma->inode == file->ino && vma->dev == file->dev;
}

/* av_vma_next() from the text alone, for older kernels and tests. @maps may be any file. */
AV_MUST_USE bool av_vma_next_text(int maps, uint64_t addr, struct av_vma *vma);

/* Is own memory mapped without holes, readable, and with @writable writable? 0 or EFAULT. */
AV_MUST_USE int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable);

/*
 * Populate whole pages. Return: 0; EFAULT, also for memory without pages of its own (VM_IO,
 * VM_PFNMAP: a device's registers, [vvar]), which nobody can pin; ENOMEM; or EINVAL: the range is
 * mapped with these rights, but the kernel cannot populate memory (Linux before 5.14).
 * Source: madvise(2), MADV_POPULATE_READ; check_vma_flags() in mm/gup.c.
 */
AV_MUST_USE int av_mapped_populate(uint64_t begin, uint64_t bytes, bool writable);

/* Which pages of this process are in memory, as far as the kernel tells. */

#define AV_PAGE_RUNS 64

/* Addresses of whole pages. */
struct av_page_scan_run {
	uint64_t begin, end;
};

/*
 * Runs (@runs, room for AV_PAGE_RUNS) of pages of [*@begin, @end) that are in memory. *@begin moves
 * to where to go on; @end: all has been seen.
 *
 * One request to the kernel since 6.7; before, "pagemap" is read (proc(5)). Any thread; changes
 * errno; the answer may be outdated.
 * Return: number of runs, -1: the kernel does not tell
 */
AV_MUST_USE int av_page_scan_in_memory(uint64_t *begin, uint64_t end,
				       struct av_page_scan_run *runs);

/* Is the page there, and of a file or of shared memory? Context: as above. */
AV_MUST_USE bool av_page_is_of_file(uint64_t addr);

/* The way of older kernels, for tests. */
AV_MUST_USE int av_page_scan_in_memory_text(uint64_t *begin, uint64_t end,
					    struct av_page_scan_run *runs);

#endif
