/* SPDX-License-Identifier: MIT */
/*
 * What the listener of unmappings (odp_notify.h) shares with those who wait for it: the process's
 * userfaultfd, the contexts it serves, how far the listener has come, and which unmappings it has
 * to ignore. What the listener calls takes no lock and no heap: odp_notify.c says why.
 */
#ifndef AV_MEMORY_ODP_UFFD_H
#define AV_MEMORY_ODP_UFFD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* The userfaultfd of this process, or -1. Valid while a watched context is open. */
int av_odp_uffd(void);

/* The slow part of av_odp_settle(). */
void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq);

/*
 * Wait until the table of @seg reflects every invalidation that a thread could have noticed.
 * Bounded, because a stopped owner must not stop its peers. Nearly always a single load.
 */
static inline void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_unlikely(seq & 1))
		av_odp_settle_wait(seg, seq);
}

/**
 * av_odp_barrier() - wait until every unmapping that has taken effect is recorded
 *
 * The kernel frees addresses before it reports that they were unmapped. After the return, no report
 * is outstanding for an earlier mapping: a report that comes now concerns what is mapped now.
 *
 * Context: any thread of the owner, not the listener; a system call and bounded waiting.
 */
void av_odp_barrier(void);

/*
 * The mover (memory/page_move.h) is about to replace the memory mapped at exactly this range by
 * other memory with the same bytes. If somebody has registered the range again meanwhile, the
 * kernel reports that as an unmapping, and the listener ignores the report. Holds until
 * av_odp_expect_end(), which waits for the listener. Context: moving.
 */
void av_odp_expect(uint64_t addr, uint64_t len);
void av_odp_expect_end(void);

/* Make threads forget which mappings they saw watched, in all own contexts. */
void av_odp_forget_seen(void);

/* --- for odp_notify.c ------------------------------------------------------------ */

void av_odp_uffd_set(int fd);

/* In a forked child: it has no listener, and watches no context. */
void av_odp_uffd_forked(void);

/* The listener begins or ends a round, in which it may use contexts. */
void av_odp_round_begin(void);
void av_odp_round_end(void);

/* Has av_odp_expect() announced an unmapping of exactly that range? */
bool av_odp_is_expected(uint64_t begin, uint64_t end);

/* Iterate over the contexts. Entries may be NULL. */
uint32_t av_odp_context_slots(void);
struct av_seg *av_odp_context_at(uint32_t slot);

/*
 * Add or remove a context; the caller makes one such call at a time. Adding returns false if there
 * is no room. When removing returns, the listener does not use the context any more.
 */
AV_MUST_USE bool av_odp_context_add(struct av_seg *seg);
void av_odp_context_remove(const struct av_seg *seg);
bool av_odp_context_has(const struct av_seg *seg);

#endif
