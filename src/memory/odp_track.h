/* SPDX-License-Identifier: MIT */
/*
 * Which memory is watched: the mappings of which the device holds a page, each whole, from the
 * moment before its first page becomes valid. Registering a region touches nothing, whatever its
 * size.
 *
 * Whole mappings, because a part would be split off: one mapping per faulted page, of the 65530
 * that a process may have, and huge pages torn at the seams.
 *
 * A peer that resolves a fault does the same from outside: it borrows the owner's descriptor
 * (pidfd_getfd(2), the same permission as process_vm_writev(2), without which it could not have
 * moved a byte) and gives it back at once. So nothing has to be asked of the owner, and a page is
 * watched before it becomes valid, whoever makes it so.
 */
#ifndef AV_MEMORY_ODP_TRACK_H
#define AV_MEMORY_ODP_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_odp_track() - have the mappings in a range of the owner's address space watched
 *
 * What cannot be watched (no userfaultfd, the program's own one on it, a kind of mapping that the
 * kernel refuses) is left alone: its invalidations will not be noticed.
 *
 * Called between av_odp_prepare() and the access: the listener moves the count of unmaps, which
 * says what is watched, before it moves the stamp. So with a stamp from after an invalidation, what
 * is remembered from before it is not believed; and what happens before the access, unheard, the
 * access sees.
 *
 * Context: any thread of any process, before an access that will make pages valid; makes system
 * calls unless the range was seen lately; no lock that others spin on is held. Not a cancellation
 * point. errno is preserved. Return:  false if part of the range was not mapped. If the access
 * succeeds all the same, a mapping has come into being that is not watched: the pages must not
 * become valid; the next access will try again.
 */
AV_MUST_USE bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * A range of own memory is not watched any more: what is mapped there is about to be exchanged, in
 * one piece, which is no unmapping that anybody is to hear of. Threads that register memory, or
 * prefetch it, may have it watched again before it is. The other way round by av_odp_retrack(),
 * which believes nothing that was remembered before. Context: any thread of the owner; moving
 * (memory/page_move.h).
 */
void av_odp_untrack(uint64_t addr, uint64_t len);
void av_odp_retrack(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Is the range, which av_odp_track() has just seen to, known to be private memory of no file? Then
 * touching it has no effect but to bring pages in, which cannot be said of the memory of a device.
 * If it lies in more than one mapping, it is not known.
 */
bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len);

#endif
