/* SPDX-License-Identifier: MIT */
/*
 * The segment: the shared half of one opened context. A sparse file of AV_SEG_BYTES that the owner
 * and every peer map whole; its pages come into being as they are used.
 *
 *   0                head: identity, addresses, pins, tables of chunks
 *   sizeof head ...  heap: chunks of objects, rings; grown by the owner, backed before it is used
 *   ... AV_ODP_OFFSET pages of regions that the library allocates, and of large rings
 * (segment/pages.h) AV_ODP_OFFSET    nodes, taken by whoever needs one: of the device page table
 * (memory/odp_table.h), the record of unmappings (memory/unmapped.h), regions' counts
 * (memory/region_count.h) AV_STAGE_OFFSET  staging buffers: backed when first touched, always
 * through av_copy() (a full file system is then an answer, not a SIGBUS)
 *
 * References inside are offsets and indices. Whatever is read from a peer's segment passes
 * av_seg_at() before it becomes a pointer: a peer that writes nonsense can spoil its own traffic
 * but nobody's process.
 *
 * Objects live in tables of fixed type (queue pairs, receive queues, CQs, keys): memory that has
 * once held a queue pair never holds anything else, so that a peer with a stale index finds a valid
 * lock and a number that does not match, instead of someone's ring.
 */
#ifndef AV_SEGMENT_SEGMENT_H
#define AV_SEGMENT_SEGMENT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/types.h>
#include <infiniband/verbs.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "device/device.h"
#include "registry/directory.h"
#include "base/limits.h"

#define AV_SEG_MAGIC	    0x746e656d67657361ull
#define AV_SEG_BYTES	    (16ull << 30)
#define AV_STAGE_BYTES	    16384u
#define AV_STAGE_COUNT	    4096u
#define AV_STAGE_OFFSET	    (AV_SEG_BYTES - (uint64_t)AV_STAGE_BYTES * AV_STAGE_COUNT)
#define AV_ODP_BYTES	    (1ull << 30)
#define AV_ODP_OFFSET	    (AV_STAGE_OFFSET - AV_ODP_BYTES)
#define AV_PINS		    256
#define AV_PIN_THREADS	    16 /* threads of a process that keep pins for themselves, */
#define AV_PIN_USES	    2  /* so many each */
#define AV_SLAB_CHUNKS	    1024
#define AV_IMPORT_KEYS	    (1u << 19)
#define AV_IMPORT_PDS	    (1u << 17)
#define AV_SEG_PAGES_OWNERS 32

/* The tables of shared objects: bytes of one object and objects per chunk. */
enum av_slab { AV_SLAB_KEY, AV_SLAB_CQ, AV_SLAB_RQ, AV_SLAB_QP, AV_SLAB_N };
#define AV_KEY_BYTES 64u
#define AV_CQ_BYTES  320u
#define AV_RQ_BYTES  384u
#define AV_QP_BYTES \
	1216u /* an odd number of cache lines: the busy ones of many spread over all sets */
/* Where in an entry its counters are (observe/counters.h): read without knowing what else is there.
 */
#define AV_QP_COUNTERS_AT 448u
#define AV_CQ_COUNTERS_AT 104u
#define AV_KEY_CHUNK	  1024u
#define AV_OBJ_CHUNK	  64u
#define AV_RQ_CHUNK	  128u /* receive queues of queue pairs, and shared ones */

static_assert(AV_SLAB_CHUNKS * AV_OBJ_CHUNK >= AV_MAX_QP &&
		      AV_SLAB_CHUNKS * AV_OBJ_CHUNK >= AV_MAX_CQ,
	      "tables");
static_assert(AV_SLAB_CHUNKS * AV_KEY_CHUNK >= AV_MAX_MR, "key table");
static_assert(AV_SLAB_CHUNKS * AV_RQ_CHUNK >= AV_MAX_QP + AV_MAX_SRQ, "receive queue table");

/* "This process is using that key": see memory/pin.h. One per cache line, so that users do not
 * disturb each other. */
struct av_pin {
	_Atomic uint64_t word;
} AV_ALIGNED(AV_CACHE_LINE);

/* Why requests of a context must not take the express lane (transport/express.h): somebody looks at
 * each of them. */
enum av_watched {
	AV_WATCHED_CAPTURE = 1,
	AV_WATCHED_FAULTS = 2,
	AV_WATCHED_MISUSE = 4,
};

struct av_seg_head {
	uint64_t magic;
	uint32_t ref;		 /* the context's reference in the directory */
	uint32_t proc;		 /* its owner's */
	int32_t pid;		 /* in the owner's PID namespace, */
	uint64_t pidns;		 /* which is this one (inode number) */
	_Atomic uint32_t closed; /* the owner has closed the context */
	_Atomic uint32_t fatal;	 /* its device has failed: transport/fatal.h */

	char device[64];   /* name of the device it was opened as, */
	uint32_t switches; /* and which of its switches were on: device/switches.h */

	/*
	 * Importing (ibv_import_device(3)): the context whose objects this one can use, 0: none;
	 * and which protection domains of this one exist, a bit per handle. Keys and domains of an
	 * importing context have numbers of their own, from AV_IMPORT_KEYS and AV_IMPORT_PDS: what
	 * is below means the origin's.
	 */
	uint32_t origin;
	_Atomic uint64_t pds[AV_MAX_PD / 64 + 1];

	/* Addresses, for "does this destination address lead to that context?". */
	uint8_t link_layer;
	uint8_t mtu; /* enum ibv_mtu */
	uint16_t lid;
	uint32_t port; /* whose GIDs: device/port.h */

	/* The shared heap of the owner's process (heap/heap.h): its descriptor there, -1: none, and
	 * its inode number. */
	int32_t heap_fd;
	uint64_t heap_inode;

	/* Futex of the owner's timer thread: av_seg_wake_timer(). */
	_Atomic uint32_t timer_doorbell;

	/* Device page table: offset of its root, end of its nodes, and a count of invalidations. */
	_Atomic uint64_t odp_root;
	_Atomic uint64_t odp_brk;
	_Atomic uint64_t odp_seq;
	_Atomic uint64_t unmapped_root; /* of the record of unmappings (memory/unmapped.h) */
	_Atomic uint32_t moving; /* the owner moves pages of its memory: memory/page_move.h */
	/* Keys end so often that their users make the barriers: memory/pin.h. */
	_Atomic uint32_t fenced;
	_Atomic uint32_t
		watched; /* enum av_watched: somebody looks at each request of this context */
	_Atomic uint32_t faults_change; /* counts changes of the device's rules of faults:
					   device/fault_rules.h */
	_Atomic uint64_t
		counter[AV_DIR_COUNTERS]; /* what av_dir_counters() has, of this context alone */

	/* Staging buffers: a stack of free ones (count << 32 | index + 1) and the first never used
	 * one. */
	_Atomic uint64_t stage_free AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t stage_fresh;
	_Atomic uint32_t stage_next[AV_STAGE_COUNT];

	struct av_pin pin[AV_PINS];
	_Atomic uint64_t chunk[AV_SLAB_N][AV_SLAB_CHUNKS]; /* offsets, 0: not there yet */

	/* What regions have counted, by chunks of keys (memory/region_count.h): offsets of nodes,
	 * and how many of these have to be looked at. */
	_Atomic uint64_t region_counts[AV_SLAB_CHUNKS];
	_Atomic uint32_t region_chunks;
};

struct av_heap;
struct av_pages;
struct av_timer;
struct av_odp_counters;
struct av_odp_gauge;
struct av_faults;
struct av_injections;
struct av_send_sums;

/* One mapped segment, of this process or of a peer. Private to the process. */
struct av_seg {
	struct av_seg_head *head;
	uint32_t ref;
	uint32_t proc;
	pid_t pid;
	bool own; /* belongs to a context of this process */
	bool same_pidns;
	int folder_fd;		/* folder of the context */
	int fd;			/* the file; own segments only, else -1 */
	struct av_heap *heap;	/* own segments only */
	struct av_pages *pages; /* likewise */
	_Atomic(struct av_timer *)
		timer;		     /* own segments only, transport/timer.h; NULL until needed */
	pthread_mutex_t timer_mutex; /* held to start it */
	_Atomic(struct av_faults *)
		faults; /* own segments only, device/fault_rules.h; NULL until needed */
	_Atomic(struct av_send_sums *) sums;	/* likewise, transport/send_sum.h */
	_Atomic(struct av_injections *) inject; /* likewise, transport/inject.h */
	struct av_odp_counters *odp;		/* the device's, in the directory */
	struct av_odp_gauge *odp_gauge;		/* this context's, likewise; own segments only */
	_Atomic(struct av_seg *) origin;	/* av_seg_origin() */
	_Atomic(uint8_t *) heap_map; /* av_seg_heap(), of a peer's; AV_SEG_NO_HEAP: not to be had */
	unsigned int users;			/* guarded by the mutex of peers.c */
	_Atomic uint64_t alive_ns;		/* when it was last known to live (coarse clock) */
	_Atomic bool gone; /* its process was seen dead or the context closed: never comes back */
	_Atomic bool
		vm_refused; /* the kernel does not let us read and write that process' memory */
	struct {
		uint32_t id;
		int fd; /* -1: free */
	} doorbell[4];	/* guarded by doorbell_mutex; see segment/doorbell.h */
	pthread_mutex_t doorbell_mutex;
	struct av_seg_pages_owner {
		_Atomic uint32_t ref; /* context whose pages regions of this one are on; 0: free */
		uint32_t users;	      /* of an own segment: regions */
		uint8_t *base;	      /* that context's segment */
		struct av_seg *seg;   /* of an own segment: it, with a use; of a peer's NULL: mapped
					 by this entry */
	} pages_owner[AV_SEG_PAGES_OWNERS]; /* changes guarded by pages_owner_mutex; see
					       segment/pages_owner.h */
	pthread_mutex_t pages_owner_mutex;
	struct av_seg *next_own; /* of those whose memory may move: memory/page_move.h */
	/* Chunks of its tables, as they were found once: they stay where they are. NULL: not asked
	 * for yet. The first ones of all tables lie together. */
	_Atomic(uint8_t *) chunk[AV_SLAB_CHUNKS][AV_SLAB_N];
	struct av_pin *kept[AV_PIN_THREADS][AV_PIN_USES]; /* each thread's own: memory/pin.h */
	_Atomic bool none_to_keep;			  /* others keep all that may be kept */
	_Atomic uint32_t drains;			  /* of pins, with others about, */
	_Atomic bool users_fence; /* so that these know by now that they make the barriers */
};

/**
 * av_seg_create() - make this process' segment for a new context
 *
 * The device's addresses are written to the head. The directory must be joined.
 * @origin: context to import from, or 0
 * Return: the segment with one user, or NULL and errno
 */
struct av_seg *av_seg_create(const struct av_device *dev, uint32_t origin);

/* Close an own segment: marks it closed, removes its files, drops the creator's use. */
void av_seg_close(struct av_seg *seg);

/**
 * av_seg_get() - the segment behind a context reference, mapped if it is not yet
 * Return: segment with one more user, to be given back with av_seg_put(); NULL if the context is
 * gone
 */
struct av_seg *av_seg_get(uint32_t ref);
void av_seg_put(struct av_seg *seg);

/* Unmap peers' segments that are kept for next time; before the directory is left. */
void av_seg_drop_idle(void);

/* Is its owner alive and the context open? Asks the kernel at most every few milliseconds. Once
 * false, always false. */
bool av_seg_alive(struct av_seg *seg);

#define AV_SEG_ALIVE_NS                                                                        \
	5000000u /* trust an answer "alive" that long; far less than a PID needs to come round \
		    again */

/* Is it known to be without asking? @now: coarse clock. No: av_seg_alive() finds out. */
static inline bool av_seg_known_alive(struct av_seg *seg, uint64_t now)
{
	return !atomic_load_explicit(&seg->gone, memory_order_relaxed) &&
	       !atomic_load_explicit(&seg->head->closed, memory_order_acquire) &&
	       (seg->own ||
		now - atomic_load_explicit(&seg->alive_ns, memory_order_relaxed) < AV_SEG_ALIVE_NS);
}

/* The same, asking now: for when something has just gone wrong. */
bool av_seg_alive_now(struct av_seg *seg);

/* The segment of the context this one imports from: a use that lasts as long as @seg's. NULL if it
 * is gone.
 */
struct av_seg *av_seg_origin(struct av_seg *seg);

/* Where the shared heap of a peer's process is mapped, whole, as long as the segment has users. NULL:
 * there is none, or the kernel does not let us. */
uint8_t *av_seg_heap(struct av_seg *seg);

/* Check the address of a port (a destination GID, or a LID on InfiniBand) against the segment's. */
bool av_seg_has_gid(const struct av_seg *seg, const union ibv_gid *gid);

/**
 * av_seg_piece() - the memory at an offset of a segment, checked
 *
 * Of one of many that lie behind one another, wherever its offset comes from: it need not begin a
 * cache line. Who computes an offset from words of a peer's segment need not check them one by one.
 * Return: pointer to @size bytes, or NULL if they are not wholly inside the segment or not 8-byte
 * aligned
 */
static inline void *av_seg_piece(const struct av_seg *seg, uint64_t offset, uint64_t size)
{
	if (av_unlikely((offset & (sizeof(uint64_t) - 1)) ||
			!av_range_within(offset, size, sizeof(struct av_seg_head),
					 AV_SEG_BYTES - sizeof(struct av_seg_head))))
		return NULL;
	return (uint8_t *)seg->head + offset;
}

/* The same of an object that begins a cache line, as all that the allocator gives out does. */
static inline void *av_seg_at(const struct av_seg *seg, uint64_t offset, uint64_t size)
{
	return av_unlikely(offset & (AV_CACHE_LINE - 1)) ? NULL : av_seg_piece(seg, offset, size);
}

/* The slow part of av_slab_at(): checks where chunk @n of @bytes is, and keeps the answer. NULL:
 * nowhere */
uint8_t *av_slab_chunk(const struct av_seg *seg, enum av_slab slab, uint32_t n, uint64_t bytes);

/* The object @index of a table, or NULL if there is none. Use the typed wrappers of the object's
 * header. */
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

/* --- the owner's allocator; thread-safe within the owner's process --------------- */

/**
 * av_seg_alloc() - take @size zeroed bytes from the heap of an own segment
 *
 * Aligned to 64 bytes, and to any larger power of two up to 4096 that divides @size.
 * Return: offset, or 0 and errno ENOMEM
 */
uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size);

/* Give back what av_seg_alloc(seg, size) returned; offset 0 is ignored. */
void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size);

/**
 * av_slab_alloc() - take an index of a table
 *
 * Freed indices are used again as late as possible. The object's memory keeps what it held (zero at
 * first). Index 0 is never given out.
 * @limit: highest number of indices in use at a time
 * Return: index, or 0 and errno ENOMEM
 */
uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit);
void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index);

/*
 * Wake the timer thread of a segment's owner: a request was parked there from outside, or an event
 * of a CQ was put off. Any process; makes a system call.
 */
void av_seg_wake_timer(struct av_seg *seg);

#endif
