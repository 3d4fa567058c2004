/* SPDX-License-Identifier: MIT */
/* How a segment is made, how a peer's is mapped, and where it has the shared heap. */
#ifndef AV_SEGMENT_SEGMENT_MAP_H
#define AV_SEGMENT_SEGMENT_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "observe/counters.h"
#include "registry/directory.h"
#include "segment/fd_pass.h"
#include "segment/layout.h"
#include "segment/segment.h"

/*
 * The shared heap: memory of the program that is born shared (docs/SHARED_HEAP.md).
 *
 * It is a library of its own (src/shared_heap/), which "anyverbs run" preloads. It leaves memory
 * alone until the heap begins: when the process opens its first device. Every block is a shared
 * mapping of one memfd of the process, and lies in one window of the address space: byte n of the
 * file is at address begin + n.
 */

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
 * Map the shared heap of a peer's process, whole, as av_fd_passed_open() gets it, and keep where it
 * is. Context: any thread; several may come at once. Return: what is kept: where it is mapped, or
 * AV_SHARED_HEAP_NOWHERE
 */
uint8_t *av_shared_heap_map(const struct av_fd_passed *what, const char *path,
			    _Atomic(uint8_t *) *kept);

/* The segment has no users any more: unmap, so that the memory goes with its process. */
void av_shared_heap_forget(_Atomic(uint8_t *) *kept);

/* Mapping parts of a shared file so that its huge pages can be used. */

/*
 * Map [offset, offset + bytes) of a file, shared, without reserving memory, at @wanted
 * (page-aligned), or if NULL at an address that if possible equals @offset modulo the size of a
 * huge page. Return: address, or NULL and errno: EEXIST if something is mapped at @wanted, else
 * that of mmap().
 */
void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset);

/*
 * Reserve address space that begins at @offset modulo @align, a power of two. Return: address, or
 * NULL
 */
void *av_map_place(uint64_t bytes, uint64_t offset, uint64_t align);

/*
 * Give rights to what av_map_file() has mapped with none, NULL included: a sparse file as a whole.
 * In a program that locks all it maps (mlockall(2)) its holes stay holes; the kernel would fill
 * them. Return: @p, or NULL: it is unmapped
 */
void *av_map_sparse(void *p, uint64_t bytes, int prot);

/* The same for private memory; @huge: from the system's pool of huge pages. */
void *av_map_private(void *wanted, uint64_t bytes, bool huge);

/* The memory of a segment: how it is made, and how another process comes to map it. */

/* Make memory and tables of a new context; @folder: the context's. Return: 0 or -errno */
AV_MUST_USE int av_seg_make(uint32_t ref, int folder, struct av_own_fd *file,
			    struct av_own_fd *tables);

/*
 * The descriptor of a context's memory; @memory: what the directory says of it, @path: the
 * context's folder. Waits at most AV_PATIENCE_NS. Return: a descriptor for the caller, or -errno
 */
AV_MUST_USE int av_seg_open(const struct av_dir_memory *memory, const char *path);

/* Where the owner hands its memory out. Return: false: the path is too long */
AV_MUST_USE bool av_seg_socket(char *name, size_t size, const char *path);

/* Map memory and tables. NULL: not possible. Core dumps have no copy of it. */
struct av_seg_head *av_seg_map(int file, int tables, int prot);

/*
 * Map a segment that exists as a whole: a new one is just being made. Else NULL. @memory, @path: as
 * av_seg_open(); @dir: as av_dir_context_open()
 */
struct av_seg_head *av_seg_map_peers(uint32_t ref, const struct av_dir_memory *memory, int dir,
				     const char *path, int prot);

/* Segments, read by somebody who has not joined the directory. */

/* Sums of the counters of queue pairs and CQs, of a context or a device, ended ones included. */

/* Add the counts of all objects that the context ever had. The segment may be a view. */
void av_totals_add(const struct av_seg *seg, struct av_totals *sum);

/*
 * What a device has counted since its last reset; @link_downed: how often its port went down. Needs
 * no joining; opens files. Never less than before but for a reset. A device that does not exist has
 * counted nothing. Any thread; no lock held.
 */
void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed);

/* The same for a context that is ending, for av_dir_join(). @folder still has its folder. */
void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum);

/* Reading a segment without having joined the directory: only the reading functions work on it. */

/* Visit the segments of all contexts of a device whose processes live. Context: the same. */
void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg);

#endif
