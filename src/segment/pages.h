/* SPDX-License-Identifier: MIT */
/*
 * Memory: what is allocated in an own segment, and which pages; memory of a peer's process outside
 * its segment; mapping files and segments; the program's shared heap; totals of counters.
 */
#pragma once

#include "segment/segment.h"

/* === alloc ======================================================================= */

/* In an own segment, any thread. Fault rules can make av_seg_alloc() and av_pages_alloc() fail. */

/*
 * The segment's @file, @tables and @head are there. Allocates offsets in [begin, end), and key
 * indices from @first_key on. Return: false: out of memory. av_heap_destroy() needs no heap.
 */
AV_MUST_USE bool av_heap_create(struct av_seg *seg, uint64_t begin, uint64_t end,
				uint32_t first_key);
void av_heap_destroy(struct av_seg *seg);

/*
 * Allocate zeroed bytes, aligned to 64, and to the largest power of two up to 4096 that divides
 * @size. Return: offset; or 0 and errno ENOMEM
 */
uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size);

/* Free what av_seg_alloc(seg, size) or av_pages_alloc() gave. Ignores 0 and impossible offsets. */
void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size);

/*
 * Take an index of a table. At most @limit may be in use at a time; freed ones recur as late as
 * possible. The object keeps its content (zero at first). Return: index, never 0; or 0 and ENOMEM
 */
uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit);
void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index);

#define AV_HUGE_LOG2	   21u
#define AV_HUGE_PAGE_BYTES (1u << AV_HUGE_LOG2)

enum av_pages_wish {
	AV_PAGES_SMALL, /* pages of 4 KiB */
	AV_PAGES_TRY,	/* huge pages where they fit, as many as there are */
	AV_PAGES_HUGE,	/* only huge pages, or fail */
};

/*
 * A block of whole pages, of 4 KiB or 2 MiB (huge), each physically contiguous: for regions that
 * the library allocates, and large rings. They lie at the end of the heap, which grows towards
 * them. The library makes huge pages by MADV_COLLAPSE, which needs neither privilege nor setting,
 * except that THP must not be denied for shared memory. Every block is backed before the caller
 * gets it.
 *
 * Other processes may have mapped a block as a shared region. Then its free is deferred: nobody
 * reuses its range until the last of them ends its use.
 */
struct av_page_block {
	uint64_t at;	/* offset in the segment; 0: no block */
	uint64_t bytes; /* a multiple of the page size */
	uint64_t huge;	/* number of huge pages in it */
};

/*
 * Allocate zeroed pages. av_pages_free() or av_seg_free() frees them. Blocks.
 * Return: 0; or ENOMEM, also if @wish is AV_PAGES_HUGE and there are too few huge pages
 */
AV_MUST_USE int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
			       struct av_page_block *block);

void av_pages_free(struct av_seg *seg, uint64_t at);

/* Free the block as soon as no other process holds it: a later av_pages_alloc() checks that. */
void av_pages_defer(struct av_seg *seg, uint64_t at);

/* Does that offset belong to whole pages, not to the heap? */
bool av_pages_owns(const struct av_seg *seg, uint64_t at);

/*
 * The pages that the memory of an object should have: MLX_*_ALLOC_TYPE, MLX_*_MAX_LOG2_CONTIG_BSIZE
 * and MLX_*_MIN_LOG2_CONTIG_BSIZE, and HUGE_CQ and the like. A "contiguous" buffer consists of
 * blocks of 2^k bytes, minimum <= k <= maximum, each physically contiguous. Here a block lies
 * within one page, so k is 12, or up to 21 on huge pages.
 */

enum av_alloc_type {
	AV_ALLOC_ANON,		/* small pages */
	AV_ALLOC_HUGE,		/* huge pages, or creation fails */
	AV_ALLOC_CONTIG,	/* contiguous pages, or creation fails */
	AV_ALLOC_PREFER_CONTIG, /* contiguous, else ANON */
	AV_ALLOC_PREFER_HUGE,	/* huge, else ANON */
	AV_ALLOC_ALL, /* rings: huge, else contiguous, else ANON; regions: as PREFER_CONTIG */
	AV_ALLOC_N
};

struct av_page_policy {
	enum av_alloc_type type;
	uint8_t min_log2, max_log2; /* of a block's bytes */
};

/* Name of a type in the variables' values; "": there is no such type. */
const char *av_alloc_type_name(unsigned int type);

/* Read a variable's value as text. Return: false: it is not set, or does not fit */
typedef bool av_page_variable(const void *where, const char *name, char *value, size_t size);

/* One kind of object. */
struct av_page_object {
	const char *name;	   /* in the names of variables: "MR", "QP", "CQ" */
	const char *huge_variable; /* "y" makes HUGE the default; NULL: none */
	enum av_alloc_type fallback;
};

/* Read an object's policy by @get; ignores what is wrong, and calls @complain if it is a size. */
struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value));

struct av_page_plan {
	bool pages; /* take whole pages by @wish; else a block of the heap */
	enum av_pages_wish wish;
	bool or_fail; /* the object's creation fails without them */
	bool never;   /* no such pages exist */
};

struct av_page_plan av_page_plan(const struct av_page_policy *policy);

/* === views ======================================================================= */

/*
 * Memory of a peer's process outside its segment. av_views_sweep(): unmap files of ended runs; any
 * thread. av_views_forget(): nobody uses the segment: unmap all, stop passing pages owners' memory.
 */
void av_views_sweep(struct av_seg *seg);
void av_views_forget(struct av_seg *seg);

/*
 * Map the shared heap of a peer's process, whole, and store its address in @shared_heap. Makes a
 * few system calls; waits AV_PEER_TIMEOUT_NS at most, for an owner in another PID namespace.
 * Context: any thread, several at a time. Return: the address, or AV_SHARED_HEAP_NOWHERE
 */
#define AV_SHARED_HEAP_NOWHERE ((uint8_t *)1) /* instead of an address: it cannot be mapped */
uint8_t *av_seg_map_shared_heap(struct av_seg *seg);

/*
 * Pages owners: a shared region that a second process has registered lies on pages of the first
 * one's context, the pages owner. The second process passes that memory to peers, so that they can
 * map it even after the first one has ended. To hold or drop: in the owner of @seg; blocks.
 */

/*
 * Count one more region on pages of @pages_owner. The first one adds a use of that segment.
 * Return: 0; ENOMEM: out of memory, AV_SEG_PAGES_OWNERS contexts already, or @pages_owner is gone
 */
AV_MUST_USE int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner);

/* Count one region less, of which no key is in use any more. The last one ends that use. */
void av_pages_owner_drop(struct av_seg *seg, uint32_t ref);

/*
 * The pages owner's segment (AV_SEG_BYTES), mapped now if need be. NULL: not available.
 * Context: any thread; a pin keeps the region's key alive. Waits AV_PEER_TIMEOUT_NS at most to map.
 */
uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref);

/* In a forked child: close the descriptors of all entries. Peers get the memory from the parent. */
void av_pages_owner_forked(struct av_seg *seg);

/*
 * Files that the program itself shares: mappings of files of memory (memfd, tmpfs, hugetlbfs). A
 * region may lie in a run of such mappings, side by side in its process. Then a descriptor in the
 * segment lists the run (memory/key.h), and peers map the same files in the same order, as a view.
 *
 * A peer opens the file as the program has it: by the program's descriptors in /proc, or by its
 * name in /dev/shm or /dev/hugepages; from another PID namespace, by the context's socket. The
 * owner itself opens and closes nothing: a close would end its locks of the file (fcntl(2)).
 */

#define AV_FILE_RUN	    1u /* instead of a part's offset on the shared heap */
#define AV_FILE_EXTENTS_MAX 4096u

/* One whole mapping of the program. Constant. */
struct av_file_extent {
	uint64_t begin, end; /* addresses in the owner's process */
	uint64_t dev, ino;   /* of the file */
	uint64_t offset;     /* of the first byte, in the file */
};

/* In the segment, 64-byte aligned. Begins as struct av_heap_part does. */
struct av_file_run {
	uint64_t begin, bytes;	 /* of all extents; constant */
	_Atomic uint64_t what;	 /* AV_FILE_RUN */
	_Atomic uint64_t serial; /* unique: no other run ever has it; 0: the run has ended */
	_Atomic uint32_t viewed; /* a peer has mapped a view */
	uint32_t extents;
	struct av_file_extent extent[];
};

/*
 * Address, in this process, of bytes of a peer's process in the run at offset @run of its segment.
 * Maps the view if there is none. NULL: not available. Checks all that it reads in the segment.
 * Context: a pin keeps a key of a region there alive. The first call makes a few system calls, and
 * waits AV_PEER_TIMEOUT_NS for each extent at most for an owner in another PID namespace. Keeps
 * errno; is no cancellation point.
 */
void *av_file_view_at(struct av_seg *seg, uint64_t run, uint64_t addr, uint64_t len);

/* === segment map ================================================================= */

/*
 * The shared heap: memory of the program that is allocated as shared memory (docs/SHARED_HEAP.md).
 *
 * A separate library (src/heap/), which "anyverbs run" preloads, provides it. The heap begins when
 * the process opens its first device; until then the program's memory is unchanged. Each block is a
 * shared mapping of one memfd of the process, in one window: byte n of the file is at begin + n.
 */

#define AV_SHARED_HEAP_BYTES (64ull << 30) /* of the sparse file, and of the window */

/* What that library publishes. */
struct av_shared_heap {
	uint64_t begin; /* of the window */
	struct av_own_fd file;

	/*
	 * Fork handlers. before_fork() makes every block private, piece by piece, while no peer may
	 * store there. It calls @exchange before and after each piece. @stay: the blocks stay where
	 * they are, and the child gets copies.
	 */
	void (*before_fork)(void (*exchange)(uint64_t addr, uint64_t bytes, bool begins),
			    bool stay);
	void (*after_fork_in_parent)(void);
	void (*after_fork_in_child)(void);

	/*
	 * Make the blocks of a range private for good, in the same way. @keep: the file keeps its
	 * bytes, because a peer is stopped while it reads them.
	 */
	void (*leave)(uint64_t addr, uint64_t bytes,
		      void (*exchange)(uint64_t addr, uint64_t bytes, bool begins), bool keep);
};

/* What it calls, in the program's thread, any locks held. */
struct av_shared_heap_user {
	/* Before the program unmaps blocks or maps over them. */
	void (*leaving)(uint64_t addr, uint64_t bytes);

	/* Before and after a fork that runs no fork handlers (clone(2)). Signals are blocked. */
	void (*forking)(void);
	void (*forked)(bool in_child);
};

/*
 * Begin the heap; in a child of fork(), with a file of its own. The preloaded library defines this.
 * No block exists before; from now on it calls @user. NULL: there can be no shared heap.
 * Context: the fork handlers are in place, and no fork() is in progress.
 */
__attribute__((weak, visibility("default"))) const struct av_shared_heap *
anyverbs_shared_heap(const struct av_shared_heap_user *user);

/* For memory/heap_region.c: the result of anyverbs_shared_heap(), or NULL if it is not defined. */
const struct av_shared_heap *av_shared_heap_begin(const struct av_shared_heap_user *user);

/* This process's shared heap; NULL: it has not begun. Takes no lock. */
const struct av_shared_heap *av_shared_heap_own(void);

/*
 * Map [offset, offset + bytes) of a file, shared, without reserving memory, at @wanted
 * (page-aligned). If that is NULL, at an address that if possible equals @offset modulo the size of
 * a huge page, so that the file's huge pages can be used.
 * Return: address; or NULL and errno: EEXIST if something is mapped at @wanted, else that of mmap()
 */
void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset);

/* Reserve addresses that equal @offset modulo @align, a power of two. Return: first, or NULL */
void *av_map_place(uint64_t bytes, uint64_t offset, uint64_t align);

/*
 * Map a whole sparse file, anywhere. Its holes remain holes even in a program that locks all it
 * maps (mlockall(2)), where the kernel would fill them. Return: address, or NULL
 */
void *av_map_sparse(int fd, uint64_t bytes, int prot);

/* Map private memory. @huge: from the system's pool of huge pages. Otherwise as av_map_file() */
void *av_map_private(void *wanted, uint64_t bytes, bool huge);

/*
 * Make the memory, the tables and the heap of a new own segment, whose folder is open, and fill in
 * its head. Return: 0 or -errno; then the caller frees what is there
 */
AV_MUST_USE int av_seg_make(struct av_seg *seg, const struct av_seg_device *dev, uint32_t origin);

/* Map a peer's segment, once its process has made it. Waits AV_PEER_TIMEOUT_NS at most. */
AV_MUST_USE bool av_seg_map_peer(struct av_seg *seg);

/* Name of the socket at which the owner passes its memory. Return: false: the path is too long */
AV_MUST_USE bool av_seg_socket(const struct av_seg *seg, char name[PATH_MAX]);

/* Sums of the counters of queue pairs and CQs of a context or a device, also of ended ones. */

/* Add the counts of all objects that the context ever had. The segment may be a view. */
void av_totals_add(const struct av_seg *seg, struct av_totals *sum);

/*
 * Read the counts of a device since its last reset; without one they never decrease. @link_downed:
 * how often its port went down. A device that does not exist has counted nothing. The process need
 * not have joined the directory. Context: any thread; the caller holds no lock. Opens files.
 */
void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed);

/* The same for an ending context, as av_dir_join() wants it. @folder still holds the context's. */
void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum);

/*
 * Visit read-only views of the segments of all contexts of a device whose processes live: only
 * functions that read a segment work on them. The process need not have joined. Context: any
 * thread; the caller holds no lock. Opens files; waits AV_PEER_TIMEOUT_NS for each context at most.
 */
void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg);
