/* SPDX-License-Identifier: MIT */
/*
 * The runs of bytes behind a UMR key, a few at a time.
 *
 * The span's pin keeps the UMR key itself alive. The keys on the way down to the bytes are pinned
 * by a struct av_run, while its pieces are in use. An unlimited list takes no more than AV_KLM_PINS
 * pins at a time. So a region may be deregistered, or a key filled anew, during a long transfer;
 * the transfer then fails at that piece.
 *
 * A peer may have written the lists. So offsets and counts are checked, and the way down has at
 * most AV_KLM_DEPTH steps.
 */
#ifndef AV_MEMORY_KLM_ITER_H
#define AV_MEMORY_KLM_ITER_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/translate.h"

#define AV_RUN_PIECES 64u /* all of a copy is on the stack of whoever executes */

/* Keys that are pinned together. */
struct av_klm_pins {
	uint32_t count;
	struct {
		struct av_seg *seg;
		uint32_t key;
		struct av_pin *pin;
	} at[AV_KLM_PINS];
};

/* The next pieces of a span. None is behind a UMR key, and their pins are borrowed. */
struct av_run {
	uint32_t count;
	uint64_t bytes;
	struct av_klm_pins pins;
	struct av_span at[AV_RUN_PIECES];
};

/**
 * av_klm_iter_check() - can all bytes of a UMR span be reached now?
 *
 * Checks keys and ranges; touches none of the program's memory.
 * Return:  as av_mem_get()
 */
AV_MUST_USE enum av_check av_klm_iter_check(const struct av_span *span);

/**
 * av_klm_iter_expand() - the first pieces of [offset, offset + bytes) of a span of any kind
 * @run: out; on AV_CHECK_NONE at least one piece, to be given to av_klm_iter_drop(); else nothing
 * is held
 *
 * Context: does not wait.
 * Return:  as av_mem_get(). AV_CHECK_BUSY: a key is being changed, or all pins are taken. A caller
 * that waits for it to pass holds no other run, and waits a bounded time: there could be a circle.
 * Then it puts everything and starts again
 */
AV_MUST_USE enum av_check av_klm_iter_expand(const struct av_span *span, uint64_t offset,
					     uint64_t bytes, struct av_run *run);
void av_klm_iter_drop(struct av_run *run);

#endif
