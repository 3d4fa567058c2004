/* SPDX-License-Identifier: MIT */
/* Pages that go away from a device's page table, and those that may. */
#ifndef AV_MEMORY_ODP_TRACK_H
#define AV_MEMORY_ODP_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* Takes pages out of a context's device page table, and counts that. No byte is lost. */

/* Invalidate a range. Any process, any thread; takes no lock. */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

struct av_odp_eviction {
	uint32_t pages; /* pages per region, chosen by @chance; UINT32_MAX: all */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* only the region with this key; 0: every region */
};

/*
 * Invalidate pages of an own context's ODP regions, as the kernel does when it needs memory;
 * implicit ones entirely. Any thread of the owner; takes locks of keys, one at a time.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

/*
 * Decides which memory is watched: every mapping of which the device holds a page, as a whole, from
 * just before its first page becomes valid. Watching a part would split the mapping: one mapping
 * per faulted page, of the 65530 that a process may have, and huge pages broken at the seams.
 *
 * A peer that resolves a fault does the same from outside. It borrows the owner's descriptor by
 * pidfd_getfd(2), which needs the same permission as the process_vm_writev(2) that moves the bytes.
 * So a page is watched before it becomes valid, whoever makes it valid, and nothing is asked of the
 * owner.
 */

/*
 * Have the mappings in a range of the owner's address space watched. What cannot be (no
 * userfaultfd, the program's own one on it, a mapping that the kernel refuses) is left alone; its
 * invalidations go unnoticed.
 *
 * Call it between av_odp_prepare() and the access. The listener changes @unmaps, which guards what
 * threads remember, before it changes the stamp: whoever has a stamp from after an invalidation
 * does not believe what was remembered before it. And an unwatched change before the access is seen
 * by the access itself.
 *
 * Context: any thread of any process, before an access that will make pages valid; hold no lock
 * that others spin on. System calls unless the range was handled lately. No cancellation point;
 * preserves errno.
 * Return: false if part of the range was unmapped. If the access succeeds nevertheless, an
 * unwatched mapping has appeared: do not make the pages valid; the next access tries again.
 */
AV_MUST_USE bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Stop watching a range of own memory that is about to be exchanged in one step: nobody is to hear
 * of that as an unmapping. Threads may watch it again meanwhile. av_odp_retrack() watches it again
 * and makes threads forget what they remembered of it. Its context may have been closed since:
 * others may watch the range, too.
 * Context: any thread of the owner; moving (memory/linger.h).
 */
void av_odp_untrack(uint64_t addr, uint64_t len);
void av_odp_retrack(struct av_seg *seg, uint64_t addr, uint64_t len);

/* The program is to have a range of its memory watched by itself. Context: any thread; no lock. */
void av_odp_release(uint64_t addr, uint64_t len);

/* Is the range, just tracked, one mapping of private anonymous memory, safe to touch? */
bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len);

#endif
