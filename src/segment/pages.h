/* SPDX-License-Identifier: MIT */
/*
 * Whole pages of a segment, of 4 KiB or 2 MiB (huge), each physically contiguous: for regions that
 * the library allocates and for large rings.
 *
 * They lie at the end of the heap, which grows towards them. MADV_COLLAPSE makes the huge ones,
 * without privilege or setting, except that THP must not be denied for shared memory. Pages are
 * backed before they are handed out, except for memory of the program that moves in piece by piece.
 *
 * The free of a block that other processes have mapped as a shared region is deferred: its range is
 * reused when the last of them is gone.
 */
#ifndef AV_SEGMENT_PAGES_H
#define AV_SEGMENT_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "observe/counters.h"
#include "registry/directory.h"
#include "segment/segment.h"

/* === pages ======================================================================= */

#define AV_HUGE_LOG2	   21u
#define AV_HUGE_PAGE_BYTES (1u << AV_HUGE_LOG2)

enum av_pages_wish {
	AV_PAGES_SMALL, /* pages of 4 KiB */
	AV_PAGES_TRY,	/* huge pages where they fit, as many as there are */
	AV_PAGES_HUGE,	/* only huge pages, or fail */
};

/* A block of pages that was handed out. */
struct av_page_block {
	uint64_t at;	/* offset in the segment; 0: none */
	uint64_t bytes; /* a multiple of the page size */
	uint64_t huge;	/* number of huge pages in it */
};

struct av_pages;

/*
 * @ref: the context. File and mapping are borrowed; @heap gives its end. NULL if memory is short.
 */
struct av_pages *av_pages_create(uint32_t ref, const struct av_own_fd *file, void *base,
				 struct av_heap *heap);
void av_pages_destroy(struct av_pages *pages);

/* 1 to AV_SEG_BYTES, zeroed; for segment/pages.h. Return: 0 or ENOMEM. */
AV_MUST_USE int av_pages_take(struct av_pages *pages, uint64_t bytes, enum av_pages_wish wish,
			      struct av_page_block *block);

void av_pages_free(struct av_pages *pages, uint64_t at);

/* Free the block as soon as no other process holds it. */
void av_pages_defer(struct av_pages *pages, uint64_t at);

/* Does that offset belong to pages, not to the heap? */
bool av_pages_owns(const struct av_pages *pages, uint64_t at);

/*
 * Which pages an object's memory should have: MLX_*_ALLOC_TYPE, MLX_*_MAX_LOG2_CONTIG_BSIZE and
 * MLX_*_MIN_LOG2_CONTIG_BSIZE, and HUGE_CQ and the like.
 *
 * A "contiguous" buffer consists of blocks of 2^k bytes, minimum <= k <= maximum, each physically
 * contiguous. Here a block lies within one page, so k is 12, or up to 21 on huge pages.
 */

enum av_alloc_type {
	AV_ALLOC_ANON,		/* small pages as usual */
	AV_ALLOC_HUGE,		/* huge pages, or creation fails */
	AV_ALLOC_CONTIG,	/* contiguous pages, or creation fails */
	AV_ALLOC_PREFER_CONTIG, /* contiguous, else ANON */
	AV_ALLOC_PREFER_HUGE,	/* huge, else ANON */
	AV_ALLOC_ALL,		/* huge, else contiguous, else ANON */
	AV_ALLOC_N
};

struct av_page_policy {
	enum av_alloc_type type;
	uint8_t min_log2, max_log2; /* of the bytes of a block */
};

/* Name of a type as in the variables; "" if there is no such type. */
const char *av_alloc_type_name(unsigned int type);

/* Reads the value of a variable as text. Return: false if it is not set or does not fit. */
typedef bool av_page_variable(const void *where, const char *name, char *value, size_t size);

/* One kind of object. */
struct av_page_object {
	const char *name;	   /* in the variables: "MR", "QP", "CQ" */
	const char *huge_variable; /* "y" makes HUGE the default; NULL: none */
	enum av_alloc_type fallback;
};

/* An unknown type counts as not set; so does a size out of range, but @complain is told. */
struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value));

struct av_page_plan {
	bool pages; /* take pages of the segment by @wish, else small memory */
	enum av_pages_wish wish;
	bool or_fail; /* creation fails without them */
	bool never;   /* such pages do not exist */
};

struct av_page_plan av_page_plan(const struct av_page_policy *policy);

/*
 * Regions of one context on pages of another: shared regions that were registered in a second
 * process. Peers get the memory of the first, the owner of the pages, from the second, which has it
 * also when the first process is gone.
 */

/* One more region is on pages of @pages_owner, which gets a use. Return: 0 or ENOMEM; blocks. */
AV_MUST_USE int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner);

/* Count one region less. None of its keys may be in use any more. */
void av_pages_owner_drop(struct av_seg *seg, uint32_t ref);

/*
 * Where the owner of a segment's pages (AV_SEG_BYTES) is mapped, now if need be, or NULL. Any
 * thread; a pin keeps the region's key alive.
 */
uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref);

/* The segment is no longer in use: give up what is left of its entries. */
void av_pages_owner_forget(struct av_seg *seg);

/* In a forked child: others get the memory from the parent. */
void av_pages_owner_forked(struct av_seg *seg);

/* === segment map ================================================================= */

/* How a segment is made, how a peer's is mapped, and where it has the shared heap. */

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

/* === alloc ======================================================================= */

/* Allocating in an own segment, any thread of it. A fault rule (observers.h) can make it fail. */

/*
 * Zeroed bytes, aligned to 64 and to a larger power of two up to 4096 that divides @size. Return:
 * offset, or 0 and errno ENOMEM.
 */
uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size);

/*
 * Free what av_seg_alloc(seg, size) returned. Offset 0 is ignored, and what can be no block of that
 * size.
 */
void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size);

/*
 * Take an index of a table; @limit may be in use at a time. Freed indices are reused as late as
 * possible. The object's memory keeps its content (zero at first). Return: index, never 0, or 0 and
 * errno ENOMEM.
 */
uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit);
void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index);

/*
 * Zeroed pages; freed by av_pages_free() or av_seg_free(). Any thread of the owner; blocks. Return:
 * 0 or ENOMEM (also if @wish wants only huge pages and there are none).
 */
AV_MUST_USE int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
			       struct av_page_block *block);

/* === file view =================================================================== */

/*
 * Memory that the program has shared itself: mappings of files of memory (memfd, tmpfs, hugetlbfs).
 * If a region lies in a run of them, side by side in its process, a descriptor in the segment says
 * which (memory/key.h). Peers map the same files in the same order, a view, and reach the
 * region by plain copies.
 *
 * A peer opens the file as the program has it, by its descriptors in /proc, by its name in
 * /dev/shm or /dev/hugepages, or, from another PID namespace, by the context's socket
 * (segment/segment.h). The owner opens and closes nothing: that would end its locks of the file
 * (fcntl(2)).
 */

#define AV_FILE_RUN	   1u /* in place of a part's offset on the heap */
#define AV_FILE_PIECES_MAX 4096u

/* One mapping of the program, whole. Constant. */
struct av_file_piece {
	uint64_t begin, end; /* addresses in the owner's process */
	uint64_t dev, ino;   /* of the file */
	uint64_t offset;     /* of its first byte there */
};

/* In the segment, 64-byte aligned. It begins as struct av_heap_part does. */
struct av_file_run {
	uint64_t begin, bytes;	 /* of all pieces; constant */
	_Atomic uint64_t what;	 /* AV_FILE_RUN */
	_Atomic uint64_t serial; /* no other run ever has it; 0: it has ended */
	_Atomic uint32_t viewed; /* a peer has had a view */
	uint32_t pieces;
	struct av_file_piece piece[];
};

/*
 * Address here of bytes of a peer's process in the run at that offset of its segment; the view is
 * made if there is none. NULL: not to be had. What stands in the segment may be anything.
 * Context: a pin keeps a key of a region there alive. A few system calls at first; waits
 * AV_PATIENCE_NS at most for an owner in another PID namespace.
 */
void *av_file_view_at(struct av_seg *seg, uint64_t run, uint64_t addr, uint64_t len);

#endif
