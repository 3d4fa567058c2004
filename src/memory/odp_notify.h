/* SPDX-License-Identifier: MIT */
/*
 * The kernel's reports that pages went away. One userfaultfd and one thread per process clear what
 * was invalidated from the device page tables of this process's contexts.
 *
 * Only events are asked for (unmap, remap, remove): ranges (odp_track.h) are registered for write
 * protection, which is never enabled, so no fault of the program is delayed.
 *
 * A thread that unmaps continues as soon as its event has been *read*, and must never see a page
 * table that does not yet know. So the listener makes odp_seq of every context odd before it reads
 * and even when the tables are up to date, and accesses wait for that (av_odp_settle(),
 * odp_track.h).
 */
#ifndef AV_MEMORY_ODP_NOTIFY_H
#define AV_MEMORY_ODP_NOTIFY_H

#include "segment/segment.h"

/*
 * Watch invalidations for an own context, before its first ODP region exists. The first context of
 * a process opens the descriptor and starts the thread. If the kernel refuses, nothing is watched
 * (docs/ODP.md); only counters show the difference.
 * Context: any thread; uses the heap; hold no lock of the data path.
 */
void av_odp_watch(struct av_seg *seg);

/*
 * An own context is being closed; no access to it is under way. The last one ends the thread and
 * closes the descriptor, which cancels every registration. Contexts that are not watched, also
 * those inherited by fork(), are ignored.
 * Context: any thread, not the listener; waits while it handles one batch of events.
 */
void av_odp_unwatch(struct av_seg *seg);

#endif
