/* SPDX-License-Identifier: MIT */
/*
 * The kernel's reports that pages went away. One userfaultfd and one thread per process clear what
 * was invalidated from the device page tables of this process's contexts.
 *
 * The descriptor serves only for its events (unmap, remap, remove). Ranges are registered for write
 * protection, which is never enabled, so no fault of the program is ever delayed. odp_track.h says
 * which ranges.
 *
 * A thread that unmaps continues as soon as its event has been *read*. It must never see a page
 * table that does not yet know. So the listener makes odp_seq of every context odd before it reads
 * and even when the tables are up to date, and accesses wait for that (av_odp_settle()).
 * odp_uffd.h has what the listener shares with those who wait for it.
 */
#ifndef AV_MEMORY_ODP_NOTIFY_H
#define AV_MEMORY_ODP_NOTIFY_H

#include "segment/segment.h"

/**
 * av_odp_watch() - start to watch invalidations for an own context; does nothing if it is watched
 *
 * Call it before the first ODP region of a context exists. The first context of a process opens the
 * descriptor and starts the thread. If the kernel refuses, nothing is watched (docs/ODP.md); only
 * counters show the difference.
 * Context: any thread; uses the heap (thread creation); hold no lock of the data path.
 */
void av_odp_watch(struct av_seg *seg);

/**
 * av_odp_unwatch() - an own context is being closed
 *
 * No access to the context may be under way. The last context ends the thread and closes the
 * descriptor, which cancels every registration. Contexts that are not watched, also those inherited
 * by fork(), are ignored.
 * Context: any thread, not the listener; waits while the listener handles one batch of events.
 */
void av_odp_unwatch(struct av_seg *seg);

#endif
