/* SPDX-License-Identifier: MIT */
/* What the listener (odp_notify.h) shares with those who wait for it: no lock and no heap. */
#ifndef AV_MEMORY_ODP_UFFD_H
#define AV_MEMORY_ODP_UFFD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* The userfaultfd of this process, or -1. Valid while a watched context is open. */
int av_odp_uffd(void);

void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq);

/*
 * Wait until the table of @seg reflects every invalidation that a thread could have noticed.
 * Bounded: a stopped owner must not stop its peers. Nearly always a single load.
 */
static inline void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_unlikely(seq & 1))
		av_odp_settle_wait(seg, seq);
}

/*
 * The same for who reads statistics: waits longer for an owner that has no core. Any segment, also
 * a view. Context: no lock held; AV_PATIENCE_NS at most.
 */
void av_odp_settle_to_read(const struct av_seg *seg);

/*
 * Wait until every unmapping that has taken effect is recorded: the kernel frees addresses before
 * it reports that. A report that comes after the return concerns what is mapped now.
 * Context: any thread of the owner, not the listener; a system call and bounded waiting.
 */
void av_odp_barrier(void);

/*
 * madvise() is about to discard this range of the program's memory. The kernel reports each mapping
 * by itself; the listener takes the first report for the whole range, so that one call is one
 * invalidation. Also in a signal handler; no lock. Return: to be given to av_odp_discard_end()
 */
uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len);
void av_odp_discard_end(uint32_t call);

/*
 * The mover (memory/linger.h) is about to replace the memory at exactly this range by other
 * memory with the same bytes. If somebody has registered the range again meanwhile, the kernel
 * reports an unmapping, which the listener ignores until av_odp_expect_end(), which waits for it.
 */
void av_odp_expect(uint64_t addr, uint64_t len);
void av_odp_expect_end(void);

/* Make threads forget which mappings they saw watched, in all own contexts. */
void av_odp_forget_seen(void);

/* --- for odp_notify.c ------------------------------------------------------------ */

void av_odp_uffd_set(int fd);

void av_odp_uffd_forked(void);

/* The listener begins or ends a round, in which it may use contexts. */
void av_odp_round_begin(void);
void av_odp_round_end(void);

bool av_odp_is_expected(uint64_t begin, uint64_t end);

/* Widen the range of a report to that of the call that it is a part of. */
void av_odp_discarded_by(uint64_t *begin, uint64_t *end);

/* Iterate over the contexts. Entries may be NULL. */
uint32_t av_odp_context_slots(void);
struct av_seg *av_odp_context_at(uint32_t slot);

/* One such call at a time. false: no room. A removed context is no longer used by the listener. */
AV_MUST_USE bool av_odp_context_add(struct av_seg *seg);
void av_odp_context_remove(const struct av_seg *seg);
bool av_odp_context_has(const struct av_seg *seg);

#endif
