/* SPDX-License-Identifier: MIT */
/*
 * The segment: the shared half of one opened context, a file that the owner and every peer map
 * whole; its pages come into being as they are used. What lies where: segment/layout.h.
 *
 * References inside are offsets and indices. Whatever is read from a peer's segment passes
 * av_seg_at() before it becomes a pointer: a peer that writes nonsense can spoil its own traffic
 * but nobody's process.
 */
#ifndef AV_SEGMENT_SEGMENT_H
#define AV_SEGMENT_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "segment/layout.h"

#define AV_SEG_PAGES_OWNERS 32

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
		faults; /* own segments only, segment/fault_rules.h; NULL until needed */
	_Atomic(struct av_send_sums *) sums;	/* likewise, transport/send_sum.h */
	_Atomic(struct av_injections *) inject; /* likewise, transport/inject.h */
	struct av_odp_counters *odp;		/* the device's, in the directory */
	struct av_odp_gauge *odp_gauge;		/* this context's, likewise; own segments only */
	_Atomic(struct av_seg *) origin;	/* av_seg_origin() */
	unsigned int users;			/* guarded by the mutex of segment.c */
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
	LIST_ENTRY(av_seg) movable; /* of those whose memory may move: memory/page_move.h */
	/* Chunks of its tables, as they were found once: they stay where they are. NULL: not asked
	 * for yet. The first ones of all tables lie together. */
	_Atomic(uint8_t *) chunk[AV_SLAB_CHUNKS][AV_SLAB_N];
};

/* What a segment says of the device that its context opens. */
struct av_seg_device {
	const char *name;
	uint8_t link_layer;
	uint8_t mtu; /* enum ibv_mtu */
	uint16_t lid;
};

/**
 * av_seg_create() - make this process' segment for a new context
 *
 * For av_device_open(), which fills in @port and @switches. The directory must be joined.
 * @origin: context to import from, or 0
 * Return: the segment with one user, or NULL and errno
 */
struct av_seg *av_seg_create(const struct av_seg_device *dev, uint32_t origin);

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

/* An answer "alive" is trusted for so long: far less than a PID needs to come round again. */
#define AV_SEG_ALIVE_NS 5000000u

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

/*
 * Wake the timer thread of a segment's owner: a request was parked there from outside, or an event
 * of a CQ was put off. Any process; makes a system call.
 */
void av_seg_wake_timer(struct av_seg *seg);

#endif
