/* SPDX-License-Identifier: MIT */
/*
 * The kernel's word that pages went away: one userfaultfd and one thread per process, which clears
 * what was invalidated from the device page tables of this process' contexts.
 *
 * The descriptor is used for its events only (unmap, remap, remove): ranges are registered for
 * write protection, which is never asked for, so no fault of the program is ever delayed. Which
 * ranges: see odp_track.h.
 *
 * An unmapping thread goes on when its event has been *read*. So that it never sees a page table
 * that does not know yet, the thread makes odp_seq of every context odd before it reads and even
 * when the tables are up to date, and accesses wait for that (av_odp_settle()).
 * What they share with it: odp_uffd.h.
 */
#ifndef AV_MEMORY_ODP_NOTIFY_H
#define AV_MEMORY_ODP_NOTIFY_H

#include "segment/segment.h"

/**
 * av_odp_watch() - begin to watch invalidations for an own context; again is nothing
 *
 * Called before the first ODP region of a context exists. The first context of a process opens the
 * descriptor and starts the thread. Where the kernel does not let us, nothing is watched
 * (docs/ODP.md), and nobody notices but the counters. Context: any thread; takes the heap (thread
 * creation); no lock of the data path held.
 */
void av_odp_watch(struct av_seg *seg);

/**
 * av_odp_unwatch() - the own context is being closed
 *
 * No access to it is under way any more. The last context ends the thread and closes the
 * descriptor, which takes every registration back. A context that is not watched is ignored (also
 * one inherited by fork()). Context: any thread, not the listener; waits for the listener for as
 * long as it handles one batch of events.
 */
void av_odp_unwatch(struct av_seg *seg);

#endif
