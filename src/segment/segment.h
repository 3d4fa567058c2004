/* SPDX-License-Identifier: MIT */
/*
 * The segment: the shared half of an open context, memory that the owner and all peers map whole
 * (segment/segment.h, segment/pages.h).
 *
 * Segments contain offsets and indices, never pointers. What is read from a peer's segment passes
 * av_seg_at() before it becomes a pointer: a peer that writes nonsense spoils only its own traffic.
 */
#ifndef AV_SEGMENT_SEGMENT_H
#define AV_SEGMENT_SEGMENT_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/watcher.h"
#include "registry/directory.h"

/* === layout ====================================================================== */

/*
 * The layout of a segment, sparse anonymous memory of AV_SEG_BYTES:
 *
 *   0                 head: identity, addresses, pins, tables of chunks
 *   sizeof head ...   heap: chunks of objects, rings; the owner extends it, and backs it before use
 *   ...               pages of regions that the library allocates, and of large rings:
 *                     segment/pages.h
 *   AV_ODP_OFFSET     nodes, allocated by any process (memory/key.h)
 *   AV_BOUNCE_OFFSET   bounce buffers: backed when first touched, and only by av_copy(), so that a
 *                     full file system is an error and not a SIGBUS
 *   AV_TABLES_OFFSET  queue pairs and CQs (struct av_tables). Here a file of the context's folder
 *                     is mapped instead: what they have counted outlives a process that is killed
 *
 * Each table of objects has one fixed type. Memory that once held a queue pair never holds anything
 * else: a peer with a stale index finds a valid lock and a number that does not match.
 */

#define AV_SEG_MAGIC	    0x746e656d67657361ull
#define AV_SEG_BYTES	    (16ull << 30)
#define AV_PAGE_BYTES	    4096u
#define AV_BOUNCE_BYTES	    16384u
#define AV_BOUNCE_COUNT	    4096u
#define AV_TABLES_BYTES	    (128ull << 20)
#define AV_TABLES_OFFSET    (AV_SEG_BYTES - AV_TABLES_BYTES)
#define AV_BOUNCE_OFFSET    (AV_TABLES_OFFSET - (uint64_t)AV_BOUNCE_BYTES * AV_BOUNCE_COUNT)
#define AV_ODP_BYTES	    (1ull << 30)
#define AV_ODP_OFFSET	    (AV_BOUNCE_OFFSET - AV_ODP_BYTES)
#define AV_HEAP_END	    AV_ODP_OFFSET
#define AV_PINS		    256
#define AV_SEG_PAGES_OWNERS 32
#define AV_SLAB_CHUNKS	    1024
#define AV_IMPORT_KEYS	    (1u << 19)
#define AV_IMPORT_PDS	    (1u << 17)

/* The tables of shared objects: bytes per object, and objects per chunk. */
enum av_slab { AV_SLAB_KEY, AV_SLAB_CQ, AV_SLAB_RQ, AV_SLAB_QP, AV_SLAB_N };
#define AV_KEY_INDEX(key) ((key) >> 8) /* memory/key.h */
#define AV_KEY_BYTES	  64u
#define AV_CQ_BYTES	  384u
#define AV_RQ_BYTES	  384u
#define AV_QP_BYTES	  1472u /* an odd number of cache lines, to use all cache sets */
/* Where the counters are in an entry (observe/counters.h). */
#define AV_QP_COUNTERS_AT 448u
#define AV_CQ_COUNTERS_AT 104u
#define AV_KEY_CHUNK	  1024u
#define AV_OBJ_CHUNK	  64u
#define AV_RQ_CHUNK	  128u /* of queue pairs, and shared ones */

/* The sparse file "tables" of a context's folder. */
struct av_tables {
	uint64_t magic;
	/* Chunks in use, from the first; backed before they count. */
	_Atomic uint32_t qp_chunks, cq_chunks;
	uint8_t qp[AV_SLAB_CHUNKS][AV_OBJ_CHUNK][AV_QP_BYTES] AV_ALIGNED(AV_PAGE_BYTES);
	uint8_t cq[AV_SLAB_CHUNKS][AV_OBJ_CHUNK][AV_CQ_BYTES] AV_ALIGNED(AV_PAGE_BYTES);
};
#define AV_TABLES_MAGIC 0x73656c6261747661ull

static_assert(sizeof(struct av_tables) <= AV_TABLES_BYTES, "tables");
static_assert(AV_SLAB_CHUNKS * AV_OBJ_CHUNK >= AV_MAX_QP, "queue pair table");
static_assert(AV_SLAB_CHUNKS * AV_OBJ_CHUNK >= AV_MAX_CQ, "completion queue table");
static_assert(AV_SLAB_CHUNKS * AV_KEY_CHUNK >= AV_MAX_MR, "key table");
static_assert(AV_SLAB_CHUNKS * AV_RQ_CHUNK >= AV_MAX_QP + AV_MAX_SRQ, "receive queue table");

/* "This process is using that key" (memory/key.h), each on its own cache line. */
struct av_pin {
	_Atomic uint64_t word;
	/* While the user copies by a system call: memory/key.h. */
	_Atomic uint32_t revoked;	/* a key: the system call is not to happen */
	_Atomic uint32_t tid;		/* of the thread in it, or about to begin it; 0: none */
	_Atomic uint64_t remote, bytes; /* struct iovec: what it copies to or from */
} AV_ALIGNED(AV_CACHE_LINE);

/* Why somebody looks at each request of a context. */
enum av_watched {
	AV_WATCHED_CAPTURE = 1,
	AV_WATCHED_FAULTS = 2,
	AV_WATCHED_MISUSE = 4,
};

struct av_seg_head {
	uint64_t magic;
	uint32_t ref;		 /* reference of the context in the directory */
	uint32_t proc;		 /* reference of its owner */
	int32_t pid;		 /* in the owner's PID namespace, */
	uint64_t pidns;		 /* whose inode number this is */
	_Atomic uint32_t closed; /* the owner has closed the context */
	_Atomic uint32_t fatal;	 /* transport/transport.h: the device has failed, as that one of
				    av_dir_failures(); 0: it is well */

	char process[16];  /* name of the owner's program */
	char device[64];   /* name of the device that was opened, */
	uint32_t switches; /* and its switches that were on: device/device.h */

	/*
	 * Importing (ibv_import_device(3)). @origin: the context whose objects this one can use; 0:
	 * none. @pds: the protection domains, one bit per handle. Keys and domains of an importing
	 * context begin at AV_IMPORT_KEYS and AV_IMPORT_PDS. Smaller numbers are the origin's.
	 */
	uint32_t origin;
	_Atomic uint64_t pds[AV_MAX_PD / 64 + 1];

	/* The context's addresses: a destination address is compared with them. */
	uint8_t link_layer;
	uint8_t mtu; /* enum ibv_mtu: active when it was opened */
	uint16_t lid;
	uint32_t port; /* its GIDs: device/port.h */

	/* Pages of other contexts, by the descriptors of this process: segment/pages.h. */
	struct av_seg_foreign {
		_Atomic uint32_t ref; /* the context; 0: none */
		int32_t number;	      /* of the descriptor of its segment */
		uint64_t ino;
	} pages_owner[AV_SEG_PAGES_OWNERS];

	/* The shared heap of the owner's process: segment/pages.h. */
	int32_t shared_heap_fd; /* as the owner has it open; -1: there is none */
	uint64_t shared_heap_inode, shared_heap_dev;

	/* Futex of the owner's timer thread: av_seg_wake_timer(). */
	_Atomic uint32_t timer_doorbell;
	_Atomic uint32_t called; /* av_seg_call() */

	/* Device page table: offset of its root, end of its nodes, and a count of invalidations. */
	_Atomic uint64_t odp_root;
	_Atomic uint64_t odp_brk;
	_Atomic uint64_t odp_seq;
	_Atomic uint64_t unmapped_root;		   /* root of memory/key.h */
	_Atomic uint32_t moving;		   /* the owner is moving pages: memory/region.h */
	_Atomic uint32_t watched;		   /* enum av_watched */
	_Atomic uint32_t faults_change;		   /* counts changes of the fault rules */
	_Atomic uint64_t counter[AV_DIR_COUNTERS]; /* as in av_dir_counters(), of this context */

	/* Bounce buffers: stack of free ones (count << 32 | index + 1); first never used. */
	_Atomic uint64_t bounce_free AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t bounce_fresh;
	_Atomic uint32_t bounce_next[AV_BOUNCE_COUNT];

	struct av_pin pin[AV_PINS];
	_Atomic uint64_t chunk[AV_SLAB_N][AV_SLAB_CHUNKS]; /* offsets; 0: not yet there */

	/* Per chunk of keys (memory/key.h): offsets of the nodes; how many exist. */
	_Atomic uint64_t region_counts[AV_SLAB_CHUNKS];
	_Atomic uint32_t region_chunks;
};

/* The tables of a mapped segment. */
static inline struct av_tables *av_tables_of(const struct av_seg_head *head)
{
	return (struct av_tables *)((uintptr_t)head + AV_TABLES_OFFSET);
}

/* === fd pass ===================================================================== */

/* How another process gets at anonymous memory. */

/* Finds files by their inode in a folder, such as /proc/PID/fd. */

/* @dir: descriptor of the folder. Return: false: that is all */
typedef bool av_file_visit(int dir, const char *name, const struct stat *st, void *arg);

/*
 * Visit the regular files that the entries of a folder lead to. Opens none of them: one may be a
 * device that notices. System calls alone, no heap, no cancellation point; changes errno.
 */
void av_file_search(const char *folder, av_file_visit *visit, void *arg);

/*
 * Is a PID still that of the process it was when its segment was mapped?
 *
 * The lock that says "alive" (registry/directory.h) lives as long as the last process that holds
 * the open file: a child that was made past the C library's fork() keeps it. The PID does not.
 */

/*
 * Hold on to the process that has this PID now. The caller has seen it alive before, and looks
 * again afterwards. Without pidfd_open(2), @process is AV_OWN_FD_NONE: nothing is ever known.
 */
void av_peer_process_open(struct av_own_fd *process, pid_t pid);

/* Is its PID free for others? */
bool av_peer_process_gone(const struct av_own_fd *process);

/*
 * How other processes get at anonymous memory (base/file.h).
 *
 * It has no name by which they could open it. They go through /proc/PID/fd, which works
 * with a stopped process, too, or by a socket in the owner's folder, which needs no common PID
 * namespace and no /proc: the owner's watcher thread (base/watcher.h) sends the descriptor to
 * whoever connects.
 */

/* Handing out a descriptor. */
struct av_fd_pass {
	struct av_watched_fd listener;
	const struct av_own_fd *file;
	void (*called)(struct av_fd_pass *h); /* somebody has connected; NULL: that is all */
};

#define AV_FD_PASS_NONE ((struct av_fd_pass){.listener.socket.fd = -1})

/*
 * Hand out @file, which is borrowed, at the socket @path, which is made. Without the socket, /proc
 * remains. @called: in the watcher's thread, must not block. Blocks.
 */
void av_fd_pass_begin(struct av_fd_pass *h, const char *path, const struct av_own_fd *file,
		      void (*called)(struct av_fd_pass *h));

/*
 * May other files of this process be handed out, too, to who names one: if @may says so. They are
 * found among the program's descriptors. @may: in the watcher's thread.
 */
void av_fd_pass_files_by(bool (*may)(uint64_t dev, uint64_t ino));

/* Have @called run in the process that hands out at @path. Never waits; may be in vain. */
void av_fd_pass_call(const char *path);

/* Does not remove the name. */
void av_fd_pass_end(struct av_fd_pass *h);

/* In a forked child, whatever locks were held: the parent goes on. */
void av_fd_pass_forked(struct av_fd_pass *h);

/* Whose descriptor it is, and what it must lead to. */
struct av_fd_passed {
	pid_t pid;	/* 0: unknown */
	int number;	/* -1: unknown */
	uint64_t ino;	/* of the memory: @number may be another file's by now */
	uint64_t bytes; /* of its size; of another file than the socket's own, any */
	uint64_t dev;	/* of another file than the socket's own; else 0 */
};

/*
 * The descriptor, for reading and writing; @path: of its socket, or NULL. Waits at most
 * AV_PATIENCE_NS. System calls are no cancellation points.
 * Return: close-on-exec descriptor, which the caller closes, or -errno
 */
AV_MUST_USE int av_fd_passed_open(const struct av_fd_passed *what, const char *path);

/* === segment ===================================================================== */

struct av_heap;
struct av_seg;
struct av_pages;
struct av_timer;
struct av_odp_counters;
struct av_odp_gauge;
struct av_faults;
struct av_injections;
struct av_send_sums;
struct av_overtaken;
struct av_table;

/* What else of a peer is mapped, by who maps it. */
struct av_seg_views {
	void (*sweep)(struct av_seg *seg);  /* unmap what has ended there; any thread */
	void (*forget)(struct av_seg *seg); /* unmap all: the segment has no users any more */
};

/* A mapped segment, of this process or of a peer. Private to the process. */
struct av_seg {
	struct av_seg_head *head;
	uint32_t ref;
	uint32_t proc;
	pid_t pid;
	bool own; /* of a context of this process */
	bool same_pidns;
	struct av_own_fd process;		/* a peer's: segment/segment.h */
	struct av_own_fd folder;		/* an own one's: the context's folder, */
	struct av_own_fd file;			/* the memory, */
	struct av_own_fd tables;		/* the file of queue pairs and CQs, */
	struct av_fd_pass fd_pass;		/* and how peers get at it */
	struct av_heap *heap;			/* own segments only */
	struct av_pages *pages;			/* own segments only */
	_Atomic(struct av_timer *) timer;	/* own segments only; NULL until needed */
	pthread_mutex_t timer_mutex;		/* held to start it */
	_Atomic(struct av_faults *) faults;	/* own segments only; NULL until needed */
	_Atomic(struct av_send_sums *) sums;	/* the same */
	_Atomic(struct av_injections *) inject; /* the same */
	_Atomic(struct av_table *) wires;	/* the same: its queue pairs on the wire */
	_Atomic(struct av_overtaken *) late;	/* the same: packets that wait for others */
	struct av_odp_counters *odp;		/* of the device, in the directory */
	struct av_odp_gauge *odp_gauge;		/* of this context; own segments only */
	_Atomic(struct av_seg *) origin;	/* av_seg_origin() */
	_Atomic(struct av_seg_views *) views;	/* of a peer's shared files: segment/pages.h */
	_Atomic(uint8_t *) shared_heap;		/* of a peer's process, NULL: not looked for yet:
						   segment/pages.h */
	unsigned int users;			/* guarded by the mutex in segment.c */
	_Atomic uint64_t alive_ns;		/* when it was last known to live (coarse clock) */
	_Atomic uint64_t in_vain_until_ns;	/* segment/segment.h */
	_Atomic bool gone;	 /* its process is dead or the context closed: for ever */
	_Atomic bool vm_refused; /* the kernel refuses access to that process's memory */
	struct {
		uint32_t id;
		struct av_own_fd fifo;
	} doorbell[4]; /* guarded by doorbell_mutex; segment/segment.h */
	pthread_mutex_t doorbell_mutex;
	struct av_seg_pages_owner {
		_Atomic uint32_t ref; /* owner of pages that regions of this one are on; 0: free */
		uint32_t users;	      /* own segments: number of regions */
		uint8_t *base;	      /* the owner's segment */
		/* Own segments: the owner, with a use, and its memory for peers. */
		struct av_seg *seg;
		struct av_own_fd file;
		struct av_fd_pass fd_pass;
	} pages_owner[AV_SEG_PAGES_OWNERS]; /* changes guarded by pages_owner_mutex;
					       segment/pages.h */
	pthread_mutex_t pages_owner_mutex;
	LIST_ENTRY(av_seg) movable; /* with memory that may move: memory/region.h */
	/* Where the chunks of its tables are; they never move. NULL: not looked up yet. */
	_Atomic(uint8_t *) chunk[AV_SLAB_CHUNKS][AV_SLAB_N];
};

/* What a segment says about its context's device. */
struct av_seg_device {
	const char *name;
	uint8_t link_layer;
	uint16_t lid;
};

/*
 * Make this process's segment for a new context; @origin: context to import from, or 0. Called by
 * av_device_open(), which fills in @port and @switches. The directory is joined.
 * Return: the segment with one user, or NULL and errno
 */
struct av_seg *av_seg_create(const struct av_seg_device *dev, uint32_t origin);

/*
 * Call the process of a segment. @called runs in that one's watcher thread, with its own segment,
 * and must not block; several calls may become one. av_seg_call() makes system calls, and never
 * waits. av_seg_end_calls(): no more calls, of an own segment that is about to be closed; new peers
 * no longer get its memory by socket.
 */
void av_seg_call_by(void (*called)(struct av_seg *seg));
void av_seg_call(struct av_seg *seg);
void av_seg_end_calls(struct av_seg *seg);

/* Have all peers unmap what has ended here (segment/pages.h). System calls; never waits. */
void av_seg_call_peers(void);

/*
 * A file of memory that a region of a peer is on, from its socket. Waits AV_PATIENCE_NS at most.
 * Return: a descriptor for the caller, or -errno
 */
AV_MUST_USE int av_seg_passed_file(const struct av_seg *seg, uint64_t dev, uint64_t ino);

/* Close an own segment: mark it closed, remove its files, drop the creator's use. */
void av_seg_close(struct av_seg *seg);

/*
 * Map the shared heap of the segment's process, and keep it in @shared_heap. A few system calls;
 * waits AV_PATIENCE_NS at most for an owner in another PID namespace, who is asked. Context: any
 * thread. Return: as av_shared_heap_map()
 */
uint8_t *av_seg_map_shared_heap(struct av_seg *seg);

/* The segment of a context, mapped if needed, with one more user; NULL: it is gone. */
struct av_seg *av_seg_get(uint32_t ref);
void av_seg_put(struct av_seg *seg);

/*
 * Open the memory of a segment once more. May block for AV_PATIENCE_NS. Return: a descriptor for
 * the caller, or -errno: its process has ended, or does not answer
 */
AV_MUST_USE int av_seg_memory(const struct av_seg *seg);

/* Unmap the peers' segments that have no user. Called before leaving the directory. */
void av_seg_drop_idle(void);

/* Is the context open? Asks the kernel every few milliseconds at most. false is for ever. */
bool av_seg_alive(struct av_seg *seg);

#define AV_SEG_ALIVE_NS 5000000u /* how long "alive" is trusted: less than a PID takes to recur */

/* Is it known to live, without asking? If not, av_seg_alive() finds out. @now: coarse clock. */
static inline bool av_seg_known_alive(struct av_seg *seg, uint64_t now)
{
	return !atomic_load_explicit(&seg->gone, memory_order_relaxed) &&
	       !atomic_load_explicit(&seg->head->closed, memory_order_acquire) &&
	       (seg->own ||
		now - atomic_load_explicit(&seg->alive_ns, memory_order_relaxed) < AV_SEG_ALIVE_NS);
}

/* The same, but asks now. For callers that have just seen something fail. */
bool av_seg_alive_now(struct av_seg *seg);

/* Until when a lock of that segment is waited for, as av_peer_lock() says; it was not had. */
uint64_t av_peer_lock_until(const struct av_seg *seg);
void av_peer_lock_in_vain(struct av_seg *seg);

/* The slow part of av_peer_lock(). */
enum av_lock_result av_peer_lock_wait(struct av_seg *seg, struct av_lock *lock);

/**
 * av_peer_lock() - take a lock that lies in @seg, anybody's, and wait for it
 *
 * The word of a peer's lock may name a living process that does not hold it. So nobody waits for a
 * peer's lock longer than AV_PATIENCE_NS, and whoever has waited that long in vain does not wait
 * for the next ones of that segment for as long again: one broken segment costs its peers half of
 * their time at most.
 * Return:  AV_LOCK_TAKEN, AV_LOCK_REPAIR; AV_LOCK_BUSY: a peer's lock was not had in time
 */
AV_MUST_USE static inline enum av_lock_result av_peer_lock(struct av_seg *seg, struct av_lock *lock,
							   enum av_lock_rank rank)
{
	uint32_t free = 0;

	av_lock_order_wait(lock, rank);
	return av_likely(atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self))
		       ? AV_LOCK_TAKEN
		       : av_peer_lock_wait(seg, lock);
}

/* The segment that this one imports from, used as long as @seg. NULL if it is gone. */
struct av_seg *av_seg_origin(struct av_seg *seg);

/*
 * Check an offset in a segment and turn it into a pointer to @size bytes; NULL if they are not
 * 8-byte aligned or not all in the segment. For a part of something larger: it need not begin on a
 * cache line, and an offset computed from words in a peer's segment needs no other check.
 */
static inline void *av_seg_piece(const struct av_seg *seg, uint64_t offset, uint64_t size)
{
	if (av_unlikely((offset & (sizeof(uint64_t) - 1)) ||
			!av_range_within(offset, size, sizeof(struct av_seg_head),
					 AV_SEG_BYTES - sizeof(struct av_seg_head))))
		return NULL;
	return (uint8_t *)seg->head + offset;
}

/* The same for an object that begins on a cache line, as everything from the allocator does. */
static inline void *av_seg_at(const struct av_seg *seg, uint64_t offset, uint64_t size)
{
	return av_unlikely(offset & (AV_CACHE_LINE - 1)) ? NULL : av_seg_piece(seg, offset, size);
}

/* The slow part of av_slab_at(): find a chunk, and keep the answer. NULL: there is none. */
uint8_t *av_slab_chunk(const struct av_seg *seg, enum av_slab slab, uint32_t n, uint64_t bytes);

/* NULL if there is no such object. Use the typed wrappers in the objects' headers. */
static inline void *av_slab_at(const struct av_seg *seg, enum av_slab slab, uint32_t index,
			       uint32_t bytes, uint32_t per_chunk)
{
	uint32_t n = index / per_chunk;
	uint8_t *chunk;

	if (av_unlikely(n >= AV_SLAB_CHUNKS))
		return NULL;
	chunk = atomic_load_explicit(&seg->chunk[n][slab], memory_order_acquire);
	if (av_unlikely(!chunk)) {
		chunk = av_slab_chunk(seg, slab, n, (uint64_t)bytes * per_chunk);
		if (!chunk)
			return NULL;
	}
	return chunk + (uint64_t)(index % per_chunk) * bytes;
}

/* Wake the owner's timer thread, from any process: a request was waiting, or an event delayed. */
void av_seg_wake_timer(struct av_seg *seg);

/* === heap ======================================================================== */

/*
 * The owner's private book-keeping of heap blocks and table entries, thread-safe: behind alloc.h.
 */

struct av_heap;

/*
 * Hands out offsets in [begin, end) of @file, queue pairs and CQs in @tables, both borrowed, and
 * key indices from @first_key on. NULL if memory is short.
 */
struct av_heap *av_heap_create(const struct av_own_fd *file, const struct av_own_fd *tables,
			       struct av_seg_head *head, uint64_t begin, uint64_t end,
			       uint32_t first_key);
void av_heap_destroy(struct av_heap *heap);

/* Behind segment/pages.h. Offset and index are 0 if memory is short. */
uint64_t av_heap_alloc(struct av_heap *heap, uint64_t size);
void av_heap_free(struct av_heap *heap, uint64_t offset, uint64_t size);
uint32_t av_heap_take_index(struct av_heap *heap, enum av_slab slab, uint32_t limit);
void av_heap_give_index(struct av_heap *heap, enum av_slab slab, uint32_t index);

/*
 * Take *@taken >= @bytes from the end for ever. Return: offset, or 0 if the heap has grown too far.
 */
uint64_t av_heap_take_end(struct av_heap *heap, uint64_t bytes, uint64_t align, uint64_t *taken);

/* === doorbell ==================================================================== */

/*
 * Doorbells: how one process makes a file descriptor of another one readable (ibv_comp_channel.fd,
 * ibv_context.async_fd). Each is a FIFO in the folder of a context, and the queue of what happened.
 *
 * Why FIFOs: another process cannot get at an eventfd without help from its owner, and a datagram
 * socket may hold only ten records. A FIFO holds 4096 of ours, is enlarged up to 65536 when it is
 * full, and needs nothing from its owner.
 */

#define AV_DOORBELL_ASYNC 0 /* asynchronous events; completion channels are 1, 2, ... */

/* 16 bytes, written and read as a whole (PIPE_BUF). */
struct av_doorbell_record {
	uint32_t event; /* AV_DOORBELL_ASYNC: enum ibv_event_type; channels: 0 */
	uint32_t kind;	/* enum av_slab of the object; AV_SLAB_N: port or device */
	uint32_t index; /* of the object in its table, or the port number */
	uint32_t id;	/* QP number or CQ generation: the index may be reused */
};

/* As much as a FIFO is enlarged to, without privileges: a record for each CQ that there can be. */
#define AV_DOORBELL_BYTES (1 << 20)
static_assert(AV_DOORBELL_BYTES / sizeof(struct av_doorbell_record) > AV_MAX_CQ, "records");

/* Make a doorbell. Return: descriptor to read from (blocking), owned by the caller; or -errno. */
AV_MUST_USE int av_doorbell_create(struct av_seg *seg, uint32_t id);

/* Open it for reading once more, non-blocking. Return: descriptor or -errno. */
AV_MUST_USE int av_doorbell_peek(struct av_seg *seg, uint32_t id);

/* Remove its name. The caller closes its descriptor. */
void av_doorbell_remove(struct av_seg *seg, uint32_t id);

/*
 * Append a record to a doorbell of any process. If the FIFO is full and cannot be enlarged, the
 * record is dropped: the descriptor is readable anyway.
 * Context: any thread; never blocks; no lock of the data path held: system calls, and waking a
 * sleeper takes 7 us, or the core.
 * Return: 0, or -errno if nothing could be written
 */
int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record);

/* The same for a context that need not be mapped; not for the data path. */
int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record);

#endif
