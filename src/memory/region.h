/* SPDX-License-Identifier: MIT */
/*
 * Regions of memory: how one is checked, prepared, changed, ended and reported; memory that the
 * library allocates for a region; the shared heap's regions; and the tools they need. Unless a
 * function says otherwise: any thread; own contexts; no lock held; may block.
 */
#pragma once

#include <sys/mman.h>

#include "memory/translate.h"

/* === region ====================================================================== */

/* Report of the regions that all processes have registered with a device. */

enum av_region_memory {
	AV_REGION_PLAIN,     /* the program's memory */
	AV_REGION_SHARED,    /* the program's memory, mapped by peers: shared heap or files */
	AV_REGION_EARLY,     /* the program's memory, allocated before it opened a device */
	AV_REGION_ON_DEMAND, /* the program's memory, ODP */
	AV_REGION_DEVICE,    /* device memory */
	AV_REGION_NULL,	     /* no memory */
	AV_REGION_PAGES,     /* pages allocated by the library */
	AV_REGION_PRIVATE,   /* private memory allocated by the library */
	AV_REGION_MAPPED,    /* pages allocated by the library, for loads and stores only */
	AV_REGION_MEMORY_N
};

struct av_region_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t pd;	  /* number of the protection domain in its context */
	uint32_t key;
	uint64_t addr; /* as work requests name it */
	uint64_t length;
	enum av_region_memory memory;
	unsigned int type;     /* enum av_alloc_type, of library-allocated memory */
	uint64_t huge, small;  /* number of 2 MiB and 4 KiB pages, of library-allocated memory */
	bool shared, writable; /* it is a shared region; other processes may write to it */
	bool second;	       /* it is on another region's pages */
	uint64_t counted[AV_MR_N];
};

/*
 * Visit each region of @device. A region that is changing may be missing, or half changed. Opens
 * files; waits AV_PEER_TIMEOUT_NS at most for each context's listener.
 */
void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg);

/* The same for one context; @seg may be a view (segment/pages.h). Does not wait. */
void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg);

const char *av_region_memory_name(enum av_region_memory memory);

/* Registration of the program's memory: the checks of memory and access flags of ibv_reg_mr(3). */

struct av_key;

struct av_region_request {
	uint64_t addr;	 /* first byte in this process */
	uint64_t length; /* bytes; 0: the region permits only accesses of length 0 */
	uint64_t iova;	 /* address of the first byte in work requests */
	uint32_t access; /* as in struct av_key */
	bool private;	 /* the library allocated it: peers do not map it */
};

/*
 * Prepare memory of this process for registration in the own context @seg. @what: out, all fields
 * of the key but pd. The caller ends its @heap with the region: av_heap_region_end(). Unless the
 * region is ODP, this populates its pages as pinning would (writable if the flags let anybody
 * write), without locking; from now on the listener records their unmapping (av_still_mapped()).
 * Return: 0; EINVAL: flags, wrap-around, or @addr and @iova at different offsets in a page;
 * EOVERFLOW: an ODP region wraps around; EOPNOTSUPP: flags; EFAULT: unmapped or read-only; ENOMEM
 */
AV_MUST_USE int av_region_prepare(struct av_seg *seg, const struct av_region_request *req,
				  struct av_key *what);

/* Are pages that were prepared for access flags @from good enough for @to? */
bool av_region_same_rights(uint32_t from, uint32_t to);

/* Check flags alone; optional ones are never refused. Return: 0, EINVAL or EOPNOTSUPP */
AV_MUST_USE int av_region_check_access(uint32_t access);

/* The same for an own context: accepts AV_ACCESS_TUNNELED if the device's switch is on. */
AV_MUST_USE int av_region_check_rights(const struct av_seg *seg, uint32_t access);

/* === allocated =================================================================== */

/*
 * Memory that the library allocates for a region: IBV_EXP_ACCESS_ALLOCATE_MR, and shared regions.
 * Pages of the context's segment (segment/pages.h), mapped a second time for the program; private
 * memory if the program requests small anonymous pages, or if there are no others. A shared
 * region's pages stay until the last process with a region on them (registry/tables.h) ends it.
 */

/* Rights of the user's other processes to a shared region, as in a file's mode. */
#define AV_SHARE_READ  (1u << 0)
#define AV_SHARE_WRITE (1u << 1)
#define AV_SHARED      (1u << 7) /* it is a shared region */
#define AV_SHARE_SECOND \
	(1u << 5) /* a region on a shared region's pages; nobody attaches to its handle */

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
	bool no_rdma;	 /* the region's keys are refused: for loads and stores only */
	uint8_t share;	 /* AV_SHARED and the rights, or 0 */
	struct av_page_policy policy;
};

/*
 * Allocate memory for a new region of an own context. @what: out, all fields of its key but pd.
 * Return: 0, with @out for av_allocated_end(); EINVAL: flags, length or address; EOPNOTSUPP: flags;
 * EEXIST: something is mapped at the wanted address; ENOMEM
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
 * Map the memory of an existing shared region of any process of the device, for a second region.
 * Return: as av_allocated_make(); EINVAL: also if the handle names no such region; EACCES: the
 * shared region does not give these rights
 */
AV_MUST_USE int av_allocated_attach(struct av_seg *seg, const struct av_attach_request *req,
				    struct av_allocated *out, struct av_key *what);

/*
 * Unmap the memory of a region whose key is destroyed, and free the pages after their last user.
 * @inherited: a forked child ends its parent's region: only unmap. No effect if @map is NULL.
 */
void av_allocated_end(struct av_allocated *memory, bool inherited);

/* May the region's access flags change to @access? 0, EINVAL, EOPNOTSUPP or EACCES. */
AV_MUST_USE int av_allocated_check_access(const struct av_allocated *memory, uint32_t access);

/* A handle is valid in all processes of the device: the context's slot, above the key's index. */
#define AV_HANDLE_INDEX_BITS 20
static inline uint32_t av_shared_handle(const struct av_seg *seg, uint32_t key)
{
	return AV_REF_SLOT(seg->ref) << AV_HANDLE_INDEX_BITS | AV_KEY_INDEX(key);
}

/* === heap region ================================================================= */

/*
 * Regions on the shared heap (segment/pages.h). Peers reach them by loads and stores, until the
 * owner makes its pages private. Registration moves no pages. docs/SHARED_HEAP.md says what hides
 * the difference from the program.
 */

/*
 * The process opens a device: with the first, the shared heap starts to serve the program's large
 * allocations (ANYVERBS_SHARED_HEAP).
 */
void av_heap_begin(void);

/*
 * Publish a plain region's memory for peers, if it is on the heap: sets @heap of @what, for
 * av_heap_region_end(). The caller then has it tracked (av_odp_track()). Else sets AV_KEY_EARLY if
 * the program allocated it before the heap started, and peers could map it otherwise. No pin held.
 */
void av_heap_region(struct av_seg *seg, struct av_key *what);

/*
 * A region on the heap or on files has ended, or has other memory now. @heap: its key's; 0 is
 * ignored. If a peer is stopped in a copy to the heap's pages, they become private first; if they
 * may not move, this waits as av_deferred_wait(). No pin held.
 */
void av_heap_region_end(struct av_seg *seg, uint32_t heap);

/*
 * The program requests what only private memory can have (MADV_DONTFORK, protection keys, ...):
 * make the heap's blocks there private, unless pages may not move, or a peer seems to be stopped.
 * Context: any thread, which may hold locks of an allocator; no cancellation point; keeps errno.
 */
void av_heap_leave(uint64_t addr, uint64_t bytes);

/*
 * pkey_mprotect(2); mprotect(2) if @key is -1. Waits while a block becomes private, since that
 * restores its rights. For PROT_EXEC or a key, makes the blocks private first. As av_heap_leave().
 */
int av_heap_protect(uint64_t addr, uint64_t bytes, int prot, int key);

/* The context is being closed, and no access is under way: end all regions on heap and files. */
void av_heap_region_close(struct av_seg *seg);

/*
 * An own context is opened, so that its accesses wait while pages of the heap become private; or is
 * closed. Takes a mutex that is held while pages move.
 */
void av_mm_quiesce_add(struct av_seg *seg);
void av_mm_quiesce_remove(struct av_seg *seg);

/*
 * May pages of the process move? Not with an io_uring, AIO, AF_XDP or another adapter: it may write
 * to pages that it has pinned, although the mapping leads elsewhere by then. Not if memory is
 * locked: it would not stay so. Uses /proc/self and the heap. The caller may hold locks.
 */
AV_MUST_USE bool av_mm_quiesce_allowed(void);

/* === fork guard ================================================================== */

/*
 * Keeping registered memory out of children of fork(), with ANYVERBS_FORK=dontfork, as libibverbs
 * does (MADV_DONTFORK, ibv_fork_init(3)) where pages are pinned. This device pins none: the mode is
 * for testing programs for hosts that need it. A page is guarded while a region covers it. After
 * ibv_fork_init() alone, children get a copy of registered memory, but the kernel checks each
 * range, so that ibv_rereg_mr() refuses what libibverbs would. Blocks on a mutex and in the kernel.
 */

/* The program has called ibv_fork_init(). RDMAV_FORK_SAFE and IBV_FORK_SAFE do the same. */
void av_fork_asked(void);

/*
 * One more region covers a range: guard every page that it touches. Return: 0, also if nothing is
 * guarded here; or nothing has changed: ENOMEM, also for a hole, or errno of the system call
 */
AV_MUST_USE int av_fork_guard(uint64_t addr, uint64_t length);

/* One region less covers a range. Return: 0; or errno: children may get it; nothing to undo */
AV_MUST_USE int av_fork_unguard(uint64_t addr, uint64_t length);

/* === mr explain ================================================================== */

/*
 * Explanations of what a check found, in the thread's pending record (observe/check.h) with the
 * numbers compared. The key may have changed since. Any context, with any locks and pins.
 */

/*
 * Explain what av_mem_get() @found, and count a refusal at the key's region. Nothing for
 * AV_CHECK_BUSY and AV_CHECK_TUNNELED. AV_CHECK_MEMORY_FAULT: no check refused the key, but the
 * memory was not accessible. Return: av_fault_of(@found, @refused)
 */
AV_COLD enum av_fault av_mr_explain(struct av_seg *seg, const struct av_mem_request *req,
				    enum av_check found, enum av_fault refused);

/* The same for av_mem_get_list(). @sge: the refused element; @left: bytes to do from it on */
AV_COLD enum av_fault av_mr_explain_element(struct av_seg *seg, uint32_t pd, uint32_t access,
					    const struct ibv_sge *sge, uint64_t left,
					    enum av_check found, enum av_fault refused);

/* Explain what av_window_bind() @found. */
AV_COLD void av_window_explain(struct av_seg *seg, const struct av_window_bind *bind,
			       enum av_check found);

/* Explain why a key cannot be invalidated. @bind: rkey, and the queue pair's number and domain */
AV_COLD void av_invalidate_explain(struct av_seg *seg, const struct av_window_bind *bind,
				   enum av_check found);

/* === vm ========================================================================== */

/* Copies that the kernel makes between two processes. */

/* One end of a copy: memory of @seg's owner, behind a key that @pin keeps. */
struct av_vm_remote {
	struct av_seg *seg;
	struct av_pin *pin;
	uint64_t addr, bytes;
};

/*
 * process_vm_readv() or process_vm_writev() between @local, an iovec of @count, and @remote. Checks
 * first that the owner is alive: another process may have its pid by now.
 * Context: any thread; waits for pages. No cancellation point.
 * Return: bytes moved (> 0), or -errno: -ESRCH: the owner is dead; -EPERM: access is refused;
 * -EAGAIN: the owner has revoked the key, or nothing was moved: unpin all keys, then execute again
 */
AV_MUST_USE ssize_t av_vm_call(bool write, const struct av_vm_remote *remote,
			       const struct iovec *local, size_t count);

/*
 * The same for several runs @remote of the owner's memory, behind the keys that @pins keep. An
 * owner that revokes a key waits for the call's end.
 */
AV_MUST_USE ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
				    size_t pin_count, const struct iovec *local, size_t count,
				    const struct iovec *remote, size_t remote_count);

#define AV_VM_TOLD_NOTHING UINT32_MAX /* as a pin's thread: its call cannot be revoked any more */

/* === vma ========================================================================= */

/* Lookups of mappings, in this process or another. No heap; the caller may hold locks. */

/* Bytes of a page of this system, a power of two. Context: any; no lock, no heap. */
size_t av_page_bytes(void);

struct av_vma {
	uint64_t begin, end; /* addresses */
	bool anonymous;	     /* private, not of a file */
	bool readable, writable, executable, shared;
	uint64_t inode;	 /* of the file; 0: none */
	uint64_t dev;	 /* device of the file, as in struct stat */
	uint64_t offset; /* offset in the file */
};

/* A file of /proc that is read; all but @fd begins as 0. */
struct av_proc_text {
	int fd;
	bool failed; /* the kernel did not say all */
	off_t at;    /* in the file, behind @text */
	size_t next, end;
	char text[1024];
};

/*
 * Its next line, cut to the @size bytes of @line. Async-signal-safe; no heap; no cancellation
 * point; changes errno. Return: false: there is none, or @failed
 */
AV_MUST_USE bool av_proc_line(struct av_proc_text *t, char *line, size_t size);

/* Open a file to read; the caller closes it. No cancellation point. Return: -1 and errno */
int av_proc_open(const char *path);

/* The same, of /proc/self/maps. */
int av_vma_open_own(void);

/* Bits of proc_pid_pagemap(5). */
#define AV_PAGEMAP_PRESENT (1ull << 63)
#define AV_PAGEMAP_FILE	   (1ull << 61) /* or shared */

/* Read what it says of @pages of our own. Return: the number of entries read; 0: it says nothing */
size_t av_pagemap_read(uint64_t addr, uint64_t *entry, size_t pages);

/*
 * The mapping that covers @addr, or else the next one above. @maps: a process's "maps" in /proc.
 * One request to the kernel on Linux 6.11 or later; earlier, or of another file, reads the text.
 * Async-signal-safe; no heap; changes errno. Return: false: none, or the kernel does not say
 */
AV_MUST_USE bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma);

/* Rights as mmap() takes them. */
static inline int av_vma_rights(const struct av_vma *vma)
{
	return (vma->readable ? PROT_READ : 0) | (vma->writable ? PROT_WRITE : 0) |
	       (vma->executable ? PROT_EXEC : 0);
}

/* The rights of a range; -1: it has a hole, or mappings with different rights. */
AV_MUST_USE int av_vma_rights_of(int maps, uint64_t addr, uint64_t bytes);

/* Is it a mapping of this file? Inode numbers are unique only within a device. */
static inline bool av_vma_is_of(const struct av_vma *vma, const struct av_own_fd *file)
{
	return vma->inode == file->ino && vma->dev == file->dev;
}

/* Is own memory mapped without holes, readable, and with @writable writable? Return: 0 or EFAULT */
AV_MUST_USE int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable);

/*
 * Populate whole pages. Waits for them. Return: 0; EFAULT: not mapped with these rights, or memory
 * without pages of its own (VM_IO, VM_PFNMAP: a device's registers, [vvar]), which nobody can pin;
 * ENOMEM; EINVAL: mapped so, but the kernel cannot populate memory (Linux before 5.14)
 * Source: madvise(2), MADV_POPULATE_READ; check_vma_flags() in mm/gup.c.
 */
AV_MUST_USE int av_mapped_populate(uint64_t begin, uint64_t bytes, bool writable);
