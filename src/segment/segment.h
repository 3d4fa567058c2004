/* SPDX-License-Identifier: MIT */
/*
 * The segment: the shared half of an open context, memory that the owner and all peers map whole
 * (segment/layout.h, segment/segment_map.h).
 *
 * Segments contain offsets and indices, never pointers. What is read from a peer's segment passes
 * av_seg_at() before it becomes a pointer: a peer that writes nonsense spoils only its own traffic.
 */
#ifndef AV_SEGMENT_SEGMENT_H
#define AV_SEGMENT_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/lock.h"
#include "segment/fd_pass.h"
#include "segment/layout.h"

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
	struct av_own_fd process;		/* a peer's: segment/fd_pass.h */
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
	_Atomic(struct av_seg_views *) views;	/* of a peer's shared files: segment/file_view.h */
	_Atomic(uint8_t *) shared_heap;		/* of a peer's process, NULL: not looked for yet:
						   segment/segment_map.h */
	unsigned int users;			/* guarded by the mutex in segment.c */
	_Atomic uint64_t alive_ns;		/* when it was last known to live (coarse clock) */
	_Atomic uint64_t in_vain_until_ns;	/* segment/doorbell.h */
	_Atomic bool gone;	 /* its process is dead or the context closed: for ever */
	_Atomic bool vm_refused; /* the kernel refuses access to that process's memory */
	struct {
		uint32_t id;
		struct av_own_fd fifo;
	} doorbell[4]; /* guarded by doorbell_mutex; segment/doorbell.h */
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
	LIST_ENTRY(av_seg) movable; /* with memory that may move: memory/deferred_free.h */
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

/* Have all peers unmap what has ended here (segment/file_view.h). System calls; never waits. */
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

#endif
