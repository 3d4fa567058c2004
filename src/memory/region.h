/* SPDX-License-Identifier: MIT */
/*
 * Regions: their registration, their report, and memory that was allocated too early to be
 * shared.
 */
#ifndef AV_MEMORY_REGION_H
#define AV_MEMORY_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/file.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "observe/check.h"
#include "observe/counters.h"
#include "registry/directory.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* === region ====================================================================== */

/*
 * Memory that was allocated before the shared heap began, with the process's first device: of
 * registered memory, "anyverbs stat mr" and "doctor" say so, since it could be shared otherwise.
 */

/* Remember the large private mappings that there are now. One thread at a time. */
void av_early_note(void);

/* Lists the regions that all processes have registered with a device. */

enum av_region_memory {
	AV_REGION_PLAIN,     /* the program's memory */
	AV_REGION_SHARED,    /* the program's memory, on the shared heap: peers map it */
	AV_REGION_EARLY,     /* the program's memory, allocated before it opened a device */
	AV_REGION_ON_DEMAND, /* the program's memory, ODP */
	AV_REGION_DEVICE,    /* device memory */
	AV_REGION_NULL,	     /* no memory */
	AV_REGION_PAGES,     /* pages allocated by the library */
	AV_REGION_PRIVATE,   /* private memory allocated by the library */
	AV_REGION_MAPPED,    /* pages allocated by the library, for mapping only */
	AV_REGION_MEMORY_N
};

struct av_region_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t pd;	  /* number of the protection domain in its context */
	uint32_t key;
	uint64_t addr; /* in work requests */
	uint64_t length;
	enum av_region_memory memory;
	unsigned int type;     /* enum av_alloc_type, if the library allocated it */
	uint64_t huge, small;  /* number of 2 MiB and of 4 KiB pages, if the library allocated it */
	bool shared, writable; /* a shared region; others may write to it */
	bool second;	       /* a region on another region's pages */
	uint64_t counted[AV_MR_N];
};

/*
 * Visit each region of @device. One that is changing may be missing, or half changed. Any thread.
 */
void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg);

/* The same for one context, given as a view (segment/pages.h). */
void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg);

const char *av_region_memory_name(enum av_region_memory memory);

/* Registers ordinary memory: the checks of ibv_reg_mr(3) of memory and access flags. */

struct av_key;

struct av_region_request {
	uint64_t addr;	 /* first byte in this process */
	uint64_t length; /* bytes; 0 is allowed: such a region permits only zero-length accesses */
	uint64_t iova;	 /* address of the first byte in work requests */
	uint32_t access; /* as of struct av_key */
	bool private;	 /* the library has allocated it: peers do not map it */
};

/*
 * Prepare memory of this process for registration by the own context @seg. @what: out, all fields
 * of its key but pd. Populates the pages as pinning would (writable if the flags let anybody
 * write), but does not lock them. From here on their unmapping is noticed (memory/key.h). If
 * it is on the shared heap (memory/region.h), the caller ends that with the region.
 * Context: any thread; waits for pages; no lock held.
 * Return: 0, or EINVAL (flags, wrap-around, address and iova at different offsets in a page),
 * EFAULT (unmapped, or not writable), ENOMEM
 */
AV_MUST_USE int av_region_prepare(struct av_seg *seg, const struct av_region_request *req,
				  struct av_key *what);

/* Do both sets of flags need the same rights on the pages? */
bool av_region_same_rights(uint32_t from, uint32_t to);

/* Check the flags alone: 0, EINVAL or EOPNOTSUPP. Bits of the optional range are never refused. */
AV_MUST_USE int av_region_check_access(uint32_t access);

/* The same in an own context: accepts AV_ACCESS_TUNNELED if the device's switch is on. */
AV_MUST_USE int av_region_check_rights(const struct av_seg *seg, uint32_t access);

/* === allocated =================================================================== */

/*
 * Memory that the library allocates for a region: IBV_EXP_ACCESS_ALLOCATE_MR, and shared regions.
 * Pages of the context's segment (segment/pages.h), mapped a second time for the program, so that
 * every process can access it by plain copies and by the processor's atomics. Private memory like
 * any that a program registers if small anonymous pages are requested, or no others are available.
 *
 * Every process with a region on a shared region's pages is a user of them (registry/tables.h):
 * they stay until the last user leaves, whatever becomes of the first region.
 */

/* Rights that a shared region gives to the user's other processes, as in a file's mode. */
#define AV_SHARE_READ  (1u << 0)
#define AV_SHARE_WRITE (1u << 1)
#define AV_SHARED      (1u << 7) /* it is a shared region */
#define AV_SHARE_SECOND \
	(1u << 5) /* a region on a shared region's pages; its own handle gives access to nobody */

/* A region's memory in this process. */
struct av_allocated {
	void *map; /* NULL: none */
	uint64_t bytes;
	struct av_seg *seg;   /* the context of the region */
	uint32_t pages_owner; /* the context whose segment has the pages; 0: private memory */
	bool shared, writable;
	uint64_t at; /* offset of the pages in that segment */
};

struct av_allocate_request {
	void *wanted;	 /* where to map it; NULL: anywhere */
	uint64_t length; /* bytes, > 0 */
	uint32_t access; /* enum ibv_access_flags of the region */
	bool no_rdma;	 /* for mapping only: the region's keys are refused */
	uint8_t share;	 /* AV_SHARED and the rights, or 0 */
	struct av_page_policy policy;
};

/*
 * Allocate memory for a new region of an own context. @what: out, all fields of its key but pd.
 * Blocks.
 * Return: 0, EINVAL (rights, address), EEXIST (something is mapped at the wanted address), ENOMEM
 */
AV_MUST_USE int av_allocated_make(struct av_seg *seg, const struct av_allocate_request *req,
				  struct av_allocated *out, struct av_key *what);

struct av_attach_request {
	uint32_t handle; /* of the shared region: av_shared_handle() */
	void *wanted;	 /* as in struct av_allocate_request */
	uint32_t access; /* as in struct av_allocate_request */
	bool write;	 /* the program will write through its mapping */
	bool no_rdma;	 /* as in struct av_allocate_request */
};

/*
 * The memory of an existing shared region, in any process. Return: as above; EACCES: it does not
 * give these rights
 */
AV_MUST_USE int av_allocated_attach(struct av_seg *seg, const struct av_attach_request *req,
				    struct av_allocated *out, struct av_key *what);

/*
 * Unmap the memory of a region whose key has been destroyed, and free it or leave it to its other
 * users. @inherited: in a forked child, for a region of its parent: only unmap.
 */
void av_allocated_end(struct av_allocated *memory, bool inherited);

/* Could the region's access flags change to @access? 0, EINVAL or EACCES. */
AV_MUST_USE int av_allocated_check_access(const struct av_allocated *memory, uint32_t access);

/* Valid in all processes of the device: the slot of the context, above the index of the key. */
#define AV_HANDLE_INDEX_BITS 20
static inline uint32_t av_shared_handle(const struct av_seg *seg, uint32_t key)
{
	return AV_REF_SLOT(seg->ref) << AV_HANDLE_INDEX_BITS | AV_KEY_INDEX(key);
}

/* === heap region ================================================================= */

/*
 * Regions on the shared heap (segment/pages.h), which peers map: they reach such a region by
 * plain loads and stores, until its pages become private to the program again. Nothing moves when
 * it is registered. docs/SHARED_HEAP.md says what it takes that the program sees no difference.
 */

/*
 * The process opens a device: from its first one on, large memory that it asks for is born shared
 * (ANYVERBS_SHARED_HEAP).
 * Context: any thread; no lock held.
 */
void av_heap_begin(void);

/*
 * A range is being registered. It is watched (memory/odp.h) from then on.
 * Context: any thread of the owner; no lock or pin held; blocks.
 * Return: the key's field @heap, to be ended by av_heap_region_end(); 0: not all of the range is of
 * the shared heap
 */
uint32_t av_heap_region(struct av_seg *seg, uint64_t addr, uint64_t length);

/*
 * A region on the heap has ended, or has left it. If a peer is stopped in the middle of a copy to
 * it (memory/region.h), its pages become private first. 0 is ignored.
 */
void av_heap_region_end(struct av_seg *seg, uint32_t heap);

/*
 * The program is about to ask for what only private memory can have (MADV_DONTFORK, protection
 * keys, ...): the heap's blocks in the range become private before, as far as they may.
 * Context: any thread, which may hold locks of an allocator, and is not cancelled in here.
 */
void av_heap_leave(uint64_t addr, uint64_t bytes);

/*
 * pkey_mprotect(2), or mprotect(2) if @key is -1: not while a block becomes private, which has the
 * rights afterwards that it had before. Context: as above; blocks while it does.
 */
int av_heap_protect(uint64_t addr, uint64_t bytes, int prot, int key);

/* The context is being closed, unused. */
void av_heap_region_close(struct av_seg *seg);

/* === deferred free =============================================================== */

/* How a region ends while peers access it, and how its pages become private. */

/*
 * Keep everybody away from memory of this process while its pages move: between begin and end
 * nobody accesses that memory behind any key of any context, since regions may overlap. Accesses
 * under way have ended; new ones, to all memory of the process, are told to come again
 * (av_page_moving(); AV_CHECK_BUSY).
 *
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 */

/* An own context is opened, so its memory may move, or closed. Any thread; a mutex. */
void av_mm_quiesce_add(struct av_seg *seg);
void av_mm_quiesce_remove(struct av_seg *seg);

/*
 * May pages of the process move at all? Something that is no thread may write to the ones that it
 * has pinned, wherever the mapping leads by then: an io_uring, AIO, AF_XDP, another adapter. And
 * locked memory would not stay locked.
 */
AV_MUST_USE bool av_mm_quiesce_allowed(void);

/* Do the context's pages move? A dead mover's do not. Context: a pin is held. */
static inline bool av_page_moving(struct av_seg *seg)
{
	return av_unlikely(atomic_load(&seg->head->moving)) && av_seg_alive(seg);
}

/*
 * One mover at a time, without a pin; waits as long as copies from and to [begin, end) take, but
 * AV_STOPPED_NS at most for those of peers. Other copies may go on: none of the process's pages
 * moves but these. No context is added or removed before the end.
 * Return: false: not begun, since a peer seems to be stopped
 */
AV_MUST_USE bool av_mm_quiesce_begin(uint64_t begin, uint64_t end);
void av_mm_quiesce_end(void);

/* The end and the change of a region, whatever its peers are doing, or have left when they died. */

/*
 * End the key and its uses, or, if a peer is stopped in one, those that lead to the program's
 * memory (memory/key.h). Context: the owner; no lock held; waits for copies
 * under way. Return: as av_key_destroy(); ETIMEDOUT only if it cannot be deferred
 */
AV_MUST_USE int av_region_end(struct av_seg *seg, uint32_t key);

/* Replace its fields. Context, return: as av_key_change() */
AV_MUST_USE int av_region_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

/*
 * What outlives its region because a peer has been stopped in the middle of a copy.
 *
 * Deregistration does not wait for a stopped peer. System calls of its are revoked
 * (memory/key.h). Where it loads and stores in pages that it has mapped, the program gets
 * other pages in their place, or none, and the old ones are deferred. So are the key's entry, the
 * descriptor of a part of the shared heap and the list of a UMR key, since the peer may be anywhere
 * in its translation, and device memory. All are freed on the next occasion after its pin is gone.
 *
 * Owner's process only; any thread. Its mutex is the innermost: no other is taken under it.
 */

/* What has to stay with a key. */
struct av_deferred_of {
	uint64_t at;	   /* its block of pages in the segment; 0: none */
	uint32_t part;	   /* of the shared heap: @heap of struct av_key; 0: none */
	uint64_t leads_to; /* offset of what is behind it in the segment's heap; 0: nothing */
};

/*
 * @key has been withdrawn, but a peer uses it. From here on its entry is deferred, and what @of
 * says. Return: false: for want of memory
 */
AV_MUST_USE bool av_deferred_begin(struct av_seg *seg, uint32_t key,
				   const struct av_deferred_of *of);

/* It is not deferred after all. Nothing of it has been freed since it began. */
void av_deferred_cancel(struct av_seg *seg, uint32_t key);

/*
 * Free memory of the segment's heap to which keys have led: the list of a UMR key, a block of
 * device memory. At once, or when no key that led there is deferred any longer.
 */
void av_deferred_free_memory(struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Is the key deferred: do accesses through it concern nobody? */
bool av_deferred_has_key(struct av_seg *seg, uint32_t key);

/* Is a key deferred that leads to this part of the shared heap? */
bool av_deferred_has_part(struct av_seg *seg, uint32_t part);

/* Wait until nobody uses it by such a key: AV_PATIENCE_NS for each, since their users are stopped.
 */
void av_deferred_wait(struct av_seg *seg, uint32_t part);

/* Free a block of pages, or a part's descriptor, at once, or when it is deferred no longer. */
void av_deferred_free_pages(struct av_seg *seg, uint64_t at);
void av_deferred_free_part(struct av_seg *seg, uint32_t part);

/* The region has ended: from here on what was deferred of it may be freed. */
void av_deferred_settle(struct av_seg *seg, uint32_t key);

/* Free what nobody uses any more. */
void av_deferred_sweep(struct av_seg *seg);

/* The context is being closed: all of it goes with the segment. */
void av_deferred_forget(struct av_seg *seg);

/* === fork guard ================================================================== */

/*
 * Keep registered memory out of children of fork(), with ANYVERBS_FORK=dontfork. libibverbs does so
 * (MADV_DONTFORK, ibv_fork_init(3)) where pages are pinned and the kernel does not copy pinned
 * pages at fork(). Our memory is not pinned, but so a program can be tested for hosts that need it,
 * and the related errors of ibv_rereg_mr(3) have their meaning.
 *
 * A page is guarded while a region covers it. Thread-safe; blocks on a mutex and in the kernel.
 *
 * After ibv_fork_init() alone, children get a copy of registered memory as before, since it is not
 * pinned. But ranges are asked about as libibverbs asks, so that ibv_rereg_mr() finds the same
 * ranges wrong.
 */

/* The program has called ibv_fork_init(). RDMAV_FORK_SAFE or IBV_FORK_SAFE say the same. */
void av_fork_asked(void);

/*
 * One more region covers a range: every page it touches is guarded.
 * Return: 0, also if memory is not guarded at all; or errno of madvise() or ENOMEM, also for a hole
 * in the range, and nothing has changed
 */
AV_MUST_USE int av_fork_guard(uint64_t addr, uint64_t length);

/*
 * One region less. Return: 0, or errno: then it is unknown whether a child gets the range, and the
 * caller has nothing to undo.
 */
AV_MUST_USE int av_fork_unguard(uint64_t addr, uint64_t length);

/* === mr explain ================================================================== */

/*
 * Explains what a check has found: writes it to the thread's pending record (observe/check.h),
 * with the numbers that were compared. The key may have changed since.
 * Context: any, with or without locks and pins.
 */

/**
 * av_mr_explain() - explain what av_mem_get() @found
 * @found: AV_CHECK_MEMORY_FAULT: nothing, but the memory could not be accessed
 *
 * Counts a refusal at the key's region, if it has one.
 * Return:  av_fault_of(@found, @refused)
 */
AV_COLD enum av_fault av_mr_explain(struct av_seg *seg, const struct av_mem_request *req,
				    enum av_check found, enum av_fault refused);

/*
 * The same of av_mem_get_list(). @sge: the element that is refused; @left: bytes that were wanted
 * from there on
 */
AV_COLD enum av_fault av_mr_explain_element(struct av_seg *seg, uint32_t pd, uint32_t access,
					    const struct ibv_sge *sge, uint64_t left,
					    enum av_check found, enum av_fault refused);

/* av_window_bind() @found it. */
AV_COLD void av_window_explain(struct av_seg *seg, const struct av_window_bind *bind,
			       enum av_check found);

/* A key cannot be invalidated. @bind: its rkey, the queue pair's number and domain. */
AV_COLD void av_invalidate_explain(struct av_seg *seg, const struct av_window_bind *bind,
				   enum av_check found);

/* === vm ========================================================================== */

/* Copies between two processes' memory, by the kernel. */

/* One end of a copy: memory of @seg's owner, behind a key that @pin keeps. */
struct av_vm_remote {
	struct av_seg *seg;
	struct av_pin *pin;
	uint64_t addr, bytes;
};

/**
 * av_vm_call() - one process_vm_readv() or process_vm_writev()
 * @local, @count: pieces of this process's memory
 *
 * Checks first that the owner is alive: its pid may belong to another process by now.
 * Return: bytes moved (> 0), or -errno; -EAGAIN: the owner has taken the key back, or seemed to;
 * put all keys, and start again
 */
AV_MUST_USE ssize_t av_vm_call(bool write, const struct av_vm_remote *remote,
			       const struct iovec *local, size_t count);

/*
 * The same for several pieces @remote of the owner's memory, behind the keys that @pins keep. An
 * owner that takes a key back during the call waits for its end.
 */
AV_MUST_USE ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
				    size_t pin_count, const struct iovec *local, size_t count,
				    const struct iovec *remote, size_t remote_count);

/* === vma ========================================================================= */

/* Finds mappings, in this process or another, without the heap. */

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
