/* SPDX-License-Identifier: MIT */
/*
 * The segment: the shared half of an open context, memory that the owner and all peers map whole.
 * Its layout, the functions that map it, its locks, and the doorbells that wake its owner.
 */
#pragma once

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
 * A segment is sparse anonymous memory of AV_SEG_BYTES:
 *
 *   0                 head: identity, addresses, pins, tables of chunks
 *   sizeof head ...   heap: chunks of objects, rings; the owner extends it, and backs the
 *                     memory before use
 *   ...               pages of regions that the library allocates, and of large rings:
 *                     segment/pages.h
 *   AV_ODP_OFFSET     nodes, allocated by any process (memory/key.h)
 *   AV_BOUNCE_OFFSET  bounce buffers: backed when first touched, and touched only by
 *                     av_copy(), so that a full file system is an error and not a SIGBUS
 *   AV_TABLES_OFFSET  queue pairs and CQs (struct av_tables). A file of the context's folder is
 *                     mapped here: the counters outlive a process that is killed
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

/* The tables of shared objects. Below: bytes per object, and objects per chunk. */
enum av_slab { AV_SLAB_KEY, AV_SLAB_CQ, AV_SLAB_RQ, AV_SLAB_QP, AV_SLAB_N };
#define AV_KEY_INDEX(key) ((key) >> 8) /* memory/key.h */
#define AV_KEY_BYTES	  64u
#define AV_CQ_BYTES	  384u
#define AV_RQ_BYTES	  384u
#define AV_QP_BYTES	  1472u /* an odd number of cache lines, to use all cache sets */
/* Offset of the counters in an entry (observe/counters.h). */
#define AV_QP_COUNTERS_AT 448u
#define AV_CQ_COUNTERS_AT 104u
#define AV_KEY_CHUNK	  1024u
#define AV_OBJ_CHUNK	  64u
#define AV_RQ_CHUNK	  128u /* queues of queue pairs, and shared ones */

/* The sparse file "tables" of a context's folder. */
struct av_tables {
	uint64_t magic;
	/* Number of chunks in use, from the first. A chunk is backed before it counts. */
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

/* "This process is using that key" (memory/key.h). Each pin has its own cache line. */
struct av_pin {
	_Atomic uint64_t word;
	/* For a user that copies by a system call: memory/key.h. */
	_Atomic uint32_t revoked; /* a key: the user must not begin the system call */
	_Atomic uint32_t tid;	  /* thread that is in the call, or about to begin it; 0: none */
	_Atomic uint64_t remote, bytes; /* struct iovec: the remote end of the copy */
} AV_ALIGNED(AV_CACHE_LINE);

/* Flags: why the library inspects each request of a context. */
enum av_observer_bit {
	AV_OBSERVER_CAPTURE = 1,
	AV_OBSERVER_FAULTS = 2,
	AV_OBSERVER_MISUSE = 4,
	AV_OBSERVER_STRICT = 8,
};

struct av_seg_head {
	uint64_t magic;
	uint32_t ref;		 /* the context's reference in the directory */
	uint32_t proc;		 /* reference of the owner's process */
	int32_t pid;		 /* the owner's PID in its own namespace */
	uint64_t pidns;		 /* inode number of that PID namespace */
	_Atomic uint32_t closed; /* the owner has closed the context */
	_Atomic uint32_t fatal;	 /* number of the device's failure; 0: none */

	char process[16];  /* name of the owner's program */
	char device[64];   /* name of the opened device */
	uint32_t switches; /* switches that were on at the opening: device/device.h */
	uint32_t strict;   /* freedoms that the device uses, and the seed of their use: */
	uint64_t seed;	   /* observe/freedom.h */

	/*
	 * Importing (ibv_import_device(3)). @origin: the context whose objects this one can use; 0:
	 * none. @pds: protection domains, one bit per handle. Keys and domains of an importing
	 * context begin at AV_IMPORT_KEYS and AV_IMPORT_PDS; smaller numbers are the origin's.
	 */
	uint32_t origin;
	_Atomic uint64_t pds[AV_MAX_PD / 64 + 1];

	/* The context's addresses, which the transport compares with a destination address. */
	uint8_t link_layer;
	uint8_t mtu; /* enum ibv_mtu: active when the context was opened */
	uint16_t lid;
	uint32_t port; /* the port with its GIDs: device/port.h */

	/* Segments of pages owners, as descriptors of this process: segment/pages.h. */
	struct av_seg_foreign {
		_Atomic uint32_t ref; /* the pages owner's context; 0: none */
		int32_t number;	      /* of the descriptor of that segment */
		uint64_t ino;
	} pages_owner[AV_SEG_PAGES_OWNERS];

	/* The shared heap of the owner's process: segment/pages.h. */
	int32_t shared_heap_fd; /* descriptor of the owner's process; -1: none */
	uint64_t shared_heap_inode, shared_heap_dev;

	/* Futex of the owner's timer thread: av_seg_wake_timer(). */
	_Atomic uint32_t timer_doorbell;
	_Atomic uint32_t called; /* av_seg_call() has been made, and not handled yet */

	/* Device page table: offset of its root, end of its nodes, count of invalidations. */
	_Atomic uint64_t odp_root;
	_Atomic uint64_t odp_brk;
	_Atomic uint64_t odp_seq;
	_Atomic uint64_t unmapped_root;		   /* root of memory/key.h */
	_Atomic uint32_t moving;		   /* the owner is moving pages: memory/region.h */
	_Atomic uint32_t observers;		   /* enum av_observer_bit */
	_Atomic uint32_t faults_change;		   /* counts changes of the fault rules */
	_Atomic uint64_t counter[AV_DIR_COUNTERS]; /* like av_dir_counters(), of this context */

	/* Bounce buffers: stack of free ones, count << 32 | index + 1; the first one never used. */
	_Atomic uint64_t bounce_free AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t bounce_fresh;
	_Atomic uint32_t bounce_next[AV_BOUNCE_COUNT];

	struct av_pin pin[AV_PINS];
	_Atomic uint64_t chunk[AV_SLAB_N][AV_SLAB_CHUNKS]; /* offsets; 0: not allocated yet */

	/* Per chunk of keys (memory/key.h): offset of its nodes; number of such offsets. */
	_Atomic uint64_t region_counts[AV_SLAB_CHUNKS];
	_Atomic uint32_t region_chunks;
};

/* The tables of a mapped segment. */
static inline struct av_tables *av_tables_of(const struct av_seg_head *head)
{
	return (struct av_tables *)((uintptr_t)head + AV_TABLES_OFFSET);
}

/* === fd pass ===================================================================== */

/* @dir: descriptor of the folder. Return: false: stop */
typedef bool av_file_visit(int dir, const char *name, const struct stat *st, void *arg);

/*
 * Visit the regular files that the entries of a folder, such as /proc/PID/fd, lead to. Opens none:
 * a device may notice. Only system calls, no heap, no cancellation point. Changes errno.
 */
void av_file_search(const char *folder, av_file_visit *visit, void *arg);

/*
 * Passing descriptors: how other processes open anonymous memory (base/file.h), which has no name.
 * They open /proc/PID/fd, which works with a stopped process, too. Or they connect to a socket in
 * the owner's folder, which needs no common PID namespace and no /proc: the owner's watcher thread
 * (base/watcher.h) sends the descriptor to whoever connects.
 */

/* A descriptor that this process passes to others. */
struct av_fd_pass {
	struct av_watch_fd listener;
	const struct av_own_fd *file;
	void (*called)(struct av_fd_pass *h); /* runs after each connection; NULL: nothing to run */
};

#define AV_FD_PASS_NONE ((struct av_fd_pass){.listener.socket.fd = -1})

/*
 * Pass @file to whoever connects to the socket @path, which this function makes. The caller keeps
 * @file open meanwhile. Without the socket, others use /proc.
 * @called: runs in the watcher's thread; must not block. Context: any thread; blocks.
 */
void av_fd_pass_begin(struct av_fd_pass *h, const char *path, const struct av_own_fd *file,
		      void (*called)(struct av_fd_pass *h));

/*
 * Pass other files of this process, too, to whoever names one: the watcher's thread searches the
 * program's descriptors for a file that @may, called there, permits.
 */
void av_fd_pass_files_by(bool (*may)(uint64_t dev, uint64_t ino));

/* Have @called run in the process that passes at @path. Never waits, and may fail silently. */
void av_fd_pass_call(const char *path);

/* Stop passing. Does not remove the socket's name. */
void av_fd_pass_end(struct av_fd_pass *h);

/* In a forked child: close the socket. The parent continues to pass. Takes no lock. */
void av_fd_pass_forked(struct av_fd_pass *h);

/* A descriptor of another process, and the file that it must lead to. */
struct av_fd_passed {
	pid_t pid;	/* 0: unknown */
	int number;	/* -1: unknown */
	uint64_t ino;	/* inode of the file; @number may lead to another file by now */
	uint64_t bytes; /* size of the socket's own file; unused if @dev is set */
	uint64_t dev;	/* device of another file than the socket's own; else 0 */
};

/*
 * Open the file for reading and writing, by /proc or else by the socket @path; NULL: there is none.
 * Waits AV_PEER_TIMEOUT_NS at most. Is no cancellation point.
 * Return: close-on-exec descriptor, for the caller to close; or -errno; -ESTALE: it is another file
 */
AV_MUST_USE int av_fd_passed_open(const struct av_fd_passed *what, const char *path);

/* === segment ===================================================================== */

struct av_heap;
struct av_file_views;
struct av_timer;
struct av_odp_counters;
struct av_odp_gauge;
struct av_faults;
struct av_injections;
struct av_send_sums;
struct av_strict;
struct av_overtaken;
struct av_table;

/* A mapped segment, of this process or of a peer. Private to this process. */
struct av_seg {
	struct av_seg_head *head;
	uint32_t ref;
	uint32_t proc;
	pid_t pid;
	bool own;	/* of a context of this process */
	uint64_t pidns; /* of this process; 0: unknown */
	bool same_pidns;
	struct av_own_fd process;		/* a peer's: av_peer_process_open() */
	struct av_own_fd folder;		/* own segments: the context's folder */
	struct av_own_fd file;			/* own segments: the memory */
	struct av_own_fd tables;		/* own segments: the file of queue pairs and CQs */
	struct av_fd_pass fd_pass;		/* own segments: passes @file to peers */
	struct av_heap *heap;			/* own segments only */
	_Atomic(struct av_timer *) timer;	/* own segments only; NULL until needed */
	pthread_mutex_t timer_mutex;		/* held to start the timer; */
	bool timer_ended;			/* none is started any more: guarded by it */
	_Atomic(struct av_faults *) faults;	/* own segments only; NULL until needed */
	_Atomic(struct av_send_sums *) sums;	/* the same */
	_Atomic(struct av_injections *) inject; /* the same */
	_Atomic(struct av_strict *) strict;	/* the same */
	_Atomic(struct av_table *) wires;	/* the same: queue pairs on the wire */
	_Atomic(struct av_overtaken *) late;	/* the same: packets that wait for earlier ones */
	struct av_odp_counters *odp;		/* of the device, in the directory */
	struct av_odp_gauge *odp_gauge;		/* of this context; own segments only */
	_Atomic(struct av_seg *) origin;	/* av_seg_origin() */
	_Atomic(struct av_file_views *) views;	/* views of a peer's shared files: views.c */
	_Atomic(uint8_t *) shared_heap;		/* a peer's; NULL: not mapped yet; views.c */
	unsigned int users;			/* guarded by the mutex in segment.c */
	_Atomic uint64_t alive_ns;		/* when it was last found alive (coarse clock) */
	_Atomic uint64_t in_vain_until_ns;	/* av_peer_lock() does not wait until then */
	_Atomic bool gone;	 /* its process is dead, or the context closed; never reset */
	_Atomic bool vm_refused; /* the kernel refuses access to that process's memory */
	struct {
		uint32_t id;
		struct av_own_fd fifo;
	} doorbell[4]; /* guarded by doorbell_mutex; see doorbells below */
	pthread_mutex_t doorbell_mutex;
	struct av_seg_pages_owner {
		_Atomic uint32_t ref; /* context in whose segment pages of regions are; 0: free */
		uint32_t users;	      /* own segments: number of such regions */
		uint8_t *base;	      /* that context's segment, mapped */
		/* Own segments: that segment, with a use, and its memory for peers. */
		struct av_seg *seg;
		struct av_own_fd file;
		struct av_fd_pass fd_pass;
	} pages_owner[AV_SEG_PAGES_OWNERS]; /* pages_owner_mutex guards changes; segment/pages.h */
	pthread_mutex_t pages_owner_mutex;
	LIST_ENTRY(av_seg) movable; /* own segments with movable memory: memory/region.h */
	/* Addresses of its tables' chunks, which never move. NULL: not looked up yet. */
	_Atomic(uint8_t *) chunk[AV_SLAB_CHUNKS][AV_SLAB_N];
};

/* The device's properties that a segment publishes. */
struct av_seg_device {
	const char *name;
	uint8_t link_layer;
	uint16_t lid;
};

/*
 * Make this process's segment for a new context. @origin: context to import from; 0: none. The
 * caller, av_device_open(), fills in @port and @switches. The process has joined the directory.
 * Return: the segment with one user; or NULL and errno
 */
struct av_seg *av_seg_create(const struct av_seg_device *dev, uint32_t origin);

/*
 * Calls between processes. av_seg_call() has the function set by av_seg_call_by() run in a
 * segment's process: in the watcher thread, with its own segment. The function must not block.
 * Several calls may become one. Makes system calls, never waits. av_seg_end_calls() ends calls to
 * an own segment, about to be closed; its socket then passes its memory to no new peer.
 */
void av_seg_call_by(void (*called)(struct av_seg *seg));
void av_seg_call(struct av_seg *seg);
void av_seg_end_calls(struct av_seg *seg);

/* Have peers unmap views of files that have ended here. Any thread; system calls, no waiting. */
void av_seg_call_peers(void);

/* Close an own segment: mark it closed, remove its files, end its creator's use. */
void av_seg_close(struct av_seg *seg);

/*
 * Begin and end a use of a context's segment, mapped if needed. av_seg_put() ignores NULL.
 * Context: any thread. Mapping waits for an owner that does not answer: AV_PEER_TIMEOUT_NS for its
 * memory, and in another PID namespace as long for its shared heap.
 * Return: NULL: the context is gone, or cannot be mapped
 */
struct av_seg *av_seg_get(uint32_t ref);
void av_seg_put(struct av_seg *seg);

/* The same for the first context at or after @slot (in and out) that can be mapped. NULL: none. */
struct av_seg *av_seg_next(uint32_t *slot);

/*
 * Open the memory of a segment once more. May block for AV_PEER_TIMEOUT_NS. Return: a descriptor,
 * which the caller closes; or -errno: its process has ended, or does not answer
 */
AV_MUST_USE int av_seg_memory(const struct av_seg *seg);

/* Unmap the peers' segments that have no user. Called before this process leaves the directory. */
void av_seg_drop_idle(void);

/*
 * Keep a reference to the process that has this PID now, to tell it from a later one with that PID.
 * The lock that says "alive" (registry/directory.h) is not enough: it lives as long as the last
 * process that holds the open file, such as a child made without the C library's fork(). The caller
 * has found the process alive, and checks again afterwards. AV_OWN_FD_NONE without pidfd_open(2).
 */
void av_peer_process_open(struct av_own_fd *process, pid_t pid);

/* Is the context open? Asks the kernel every AV_SEG_ALIVE_NS at most. Once false, always false. */
bool av_seg_alive(struct av_seg *seg);

#define AV_SEG_ALIVE_NS 5000000u /* how long "alive" is trusted; a PID takes longer to recur */

/* The same without a system call, at @now (coarse clock). If false, av_seg_alive() finds out. */
static inline bool av_seg_known_alive(struct av_seg *seg, uint64_t now)
{
	return !atomic_load_explicit(&seg->gone, memory_order_relaxed) &&
	       !atomic_load_explicit(&seg->head->closed, memory_order_acquire) &&
	       (seg->own ||
		now - atomic_load_explicit(&seg->alive_ns, memory_order_relaxed) < AV_SEG_ALIVE_NS);
}

/* av_seg_alive() that asks the kernel now: for callers that have just seen a failure. */
bool av_seg_alive_now(struct av_seg *seg);

/*
 * For waits elsewhere that follow the rule of av_peer_lock(): the deadline (av_now_ns()) for a lock
 * of that segment, UINT64_MAX in an own one. av_peer_lock_in_vain(): such a wait has timed out.
 */
uint64_t av_peer_lock_until(const struct av_seg *seg);
void av_peer_lock_in_vain(struct av_seg *seg);

/* The slow part of av_peer_lock(). */
enum av_lock_result av_peer_lock_wait(struct av_seg *seg, struct av_lock *lock);

/*
 * Take a lock in @seg, own or a peer's, and wait for it.
 *
 * The word of a peer's lock may name a living process that does not hold it. So nobody waits for a
 * peer's lock longer than AV_PEER_TIMEOUT_NS. After such a timeout, this process does not wait for
 * locks of that segment for as long again. So a broken segment costs its peers at most half of
 * their time. It waits for own locks without limit.
 * Return: AV_LOCK_TAKEN; AV_LOCK_REPAIR; AV_LOCK_BUSY: timed out on a peer's lock
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

/* The segment that this one imports from. It stays mapped as long as @seg. NULL: it is gone. */
struct av_seg *av_seg_origin(struct av_seg *seg);

/*
 * Turn an offset in a segment into a pointer to @size bytes. NULL: the bytes are not 8-byte
 * aligned, or not all in the segment, or in its head. For a part of a larger object, which need not
 * begin on a cache line. An offset computed from words of a peer's segment needs no other check.
 */
static inline void *av_seg_piece(const struct av_seg *seg, uint64_t offset, uint64_t size)
{
	const uint64_t head = sizeof(struct av_seg_head), room = AV_SEG_BYTES - head;

	/* No sum can wrap; an offset in the head is far beyond @room. */
	if (av_unlikely((offset & (sizeof(uint64_t) - 1)) || size > room ||
			offset - head > room - size))
		return NULL;
	return (uint8_t *)seg->head + offset;
}

/* The same for an object that begins on a cache line, as all blocks of the allocator do. */
static inline void *av_seg_at(const struct av_seg *seg, uint64_t offset, uint64_t size)
{
	return av_unlikely(offset & (AV_CACHE_LINE - 1)) ? NULL : av_seg_piece(seg, offset, size);
}

/* The slow part of the accessors below: find a chunk, and keep its address. NULL: there is none. */
AV_COLD uint8_t *av_slab_chunk(const struct av_seg *seg, enum av_slab slab, uint32_t n,
			       uint64_t bytes);

/* The entry of a key's index, whatever key that has now, or the object at an index. NULL: none. */
#define AV_SLAB_OBJECT(name, type, slab, index, size, per_chunk)                             \
	struct type;                                                                         \
	static inline struct type *name(const struct av_seg *seg, uint32_t number)           \
	{                                                                                    \
		uint32_t n = (index) / (per_chunk);                                          \
		uint8_t *chunk;                                                              \
                                                                                             \
		if (av_unlikely(n >= AV_SLAB_CHUNKS))                                        \
			return NULL;                                                         \
		chunk = atomic_load_explicit(&seg->chunk[n][slab], memory_order_acquire);    \
		if (av_unlikely(!chunk)) {                                                   \
			chunk = av_slab_chunk(seg, slab, n, (uint64_t)(size) * (per_chunk)); \
			if (!chunk)                                                          \
				return NULL;                                                 \
		}                                                                            \
		return (struct type *)(void *)(chunk +                                       \
					       (uint64_t)((index) % (per_chunk)) * (size));  \
	}

AV_SLAB_OBJECT(av_key_entry, av_key, AV_SLAB_KEY, AV_KEY_INDEX(number), AV_KEY_BYTES, AV_KEY_CHUNK)
AV_SLAB_OBJECT(av_cq_at, av_cq_shared, AV_SLAB_CQ, number, AV_CQ_BYTES, AV_OBJ_CHUNK)
AV_SLAB_OBJECT(av_rq_at, av_rq_shared, AV_SLAB_RQ, number, AV_RQ_BYTES, AV_RQ_CHUNK)
AV_SLAB_OBJECT(av_qp_at, av_qp_shared, AV_SLAB_QP, number, AV_QP_BYTES, AV_OBJ_CHUNK)

/* Wake the owner's timer thread for what waits. Any process; makes a system call, never waits. */
void av_seg_wake_timer(struct av_seg *seg);

/* === doorbell ==================================================================== */

/*
 * Doorbells: how one process makes a file descriptor of another one readable (ibv_comp_channel.fd,
 * ibv_context.async_fd). Each doorbell is a FIFO in a context's folder, and holds the queue of
 * events. Why a FIFO: another process cannot open an eventfd without help from its owner, and a
 * datagram socket may hold only ten records. A FIFO holds 4096 of our records, the sender enlarges
 * it up to 65536 when it is full, and it needs nothing from its owner.
 */

#define AV_DOORBELL_ASYNC 0 /* asynchronous events; completion channels are 1, 2, ... */

/* 16 bytes, written and read as a whole (PIPE_BUF). */
struct av_doorbell_record {
	uint32_t event; /* AV_DOORBELL_ASYNC: enum ibv_event_type; channels: 0 */
	uint32_t kind;	/* enum av_slab of the object; AV_SLAB_N: a port or the device */
	uint32_t index; /* of the object in its table; or the port number */
	uint32_t id;	/* QP number or CQ generation, because an index may be reused */
};

/* The size up to which an unprivileged process enlarges a FIFO: a record for each possible CQ. */
#define AV_DOORBELL_BYTES (1 << 20)
static_assert(AV_DOORBELL_BYTES / sizeof(struct av_doorbell_record) > AV_MAX_CQ, "records");

/* Make a doorbell of an own segment. Return: blocking descriptor, the caller's to close; -errno */
AV_MUST_USE int av_doorbell_create(struct av_seg *seg, uint32_t id);

/* Open the doorbell for reading once more. Return: the same, but non-blocking */
AV_MUST_USE int av_doorbell_peek(struct av_seg *seg, uint32_t id);

/* Remove the doorbell's name. The caller closes its own descriptor. */
void av_doorbell_remove(struct av_seg *seg, uint32_t id);

/*
 * Append a record to a doorbell of any process. If the FIFO is full and cannot be enlarged, drops
 * the record: the descriptor is readable anyway. Return: 0; or -errno if nothing could be written
 * Context: any thread. Waits for nothing but doorbell_mutex. Hold no lock of the data path, because
 * a system call that wakes a sleeper takes 7 us, or the core. No cancellation point; keeps errno.
 */
int av_doorbell_ring(struct av_seg *seg, uint32_t id, const struct av_doorbell_record *record);

/* The same for any context, mapped or not. Opens the FIFO each time: not for the data path. */
int av_doorbell_ring_context(uint32_t ref, uint32_t id, const struct av_doorbell_record *record);
