/* SPDX-License-Identifier: MIT */
/*
 * Copying between spans of which at least one is behind a UMR key, piece by piece. Small pieces of
 * another process are copied many at a time, since a system call for each would cost more than its
 * bytes.
 */
#ifndef AV_MEMORY_KLM_COPY_H
#define AV_MEMORY_KLM_COPY_H

#include <stdint.h>

#include "base/compiler.h"
#include "memory/xfer.h"

/**
 * av_klm_copy() - copy @bytes from @s at @soff to @d at @doff
 *
 * The order is that of av_xfer_copy().
 * Context: any thread, no lock held that others wait for; yields the core a bounded number of
 * times.
 * Return:  as av_xfer_copy(); AV_FAULT_BUSY: a key on the way is being changed
 */
AV_MUST_USE enum av_fault av_klm_copy(const struct av_span *d, uint64_t doff,
				      const struct av_span *s, uint64_t soff, uint64_t bytes);

/* av_xfer_atomic() behind a UMR key. The operand must be one aligned word in memory. */
AV_MUST_USE enum av_fault av_klm_atomic(const struct av_span *span, const struct av_atomic *atomic,
					struct av_operand *old, uint64_t now_ns);

#endif
