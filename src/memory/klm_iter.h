/* SPDX-License-Identifier: MIT */
/*
 * From a span behind an UMR key to the runs of bytes it is made of, a few at a time.
 *
 * The span keeps the key itself alive. The keys on the way down to the bytes, and those that the
 * bytes are behind, are kept alive by the pins of a struct av_run, for as long as its pieces are in
 * use: an unlimited list takes no more than AV_KLM_PINS of them at a time. So a region may be
 * deregistered, or a key filled anew, while a long transfer goes on; the transfer then fails where
 * it comes to it.
 *
 * Lists are read as what a peer wrote: offsets and counts are checked, and the way down has
 * AV_KLM_DEPTH steps at most, whatever the lists say.
 */
#ifndef AV_MEMORY_KLM_ITER_H
#define AV_MEMORY_KLM_ITER_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/translate.h"

#define AV_RUN_PIECES 128u

/* Keys kept alive together. */
struct av_klm_pins {
	uint32_t count;
	struct {
		struct av_seg *seg;
		uint32_t key;
		struct av_pin *pin;
	} at[AV_KLM_PINS];
};

/* The next pieces of a span; none of them is indirect, or has a pin of its own. */
struct av_run {
	uint32_t count;
	uint64_t bytes;
	struct av_klm_pins pins;
	struct av_span at[AV_RUN_PIECES];
};

/**
 * av_klm_iter_check() - can all bytes of an UMR span be reached now?
 *
 * Looks at keys and ranges; touches none of the program's memory. Return: as av_mem_get()
 */
AV_MUST_USE enum av_mem_fault av_klm_iter_check(const struct av_span *span);

/**
 * av_klm_iter_expand() - the first pieces of [offset, offset + bytes) of a span of any kind
 * @run: out; on AV_MEM_OK at least one piece, to be given to av_klm_iter_drop(). Else nothing is
 * held.
 *
 * Does not wait. AV_MEM_BUSY: a key is being changed, or all pins are taken. Who waits for it to
 * pass holds no other run, and does not wait for ever (there could be a circle: put everything and
 * start again).
 */
AV_MUST_USE enum av_mem_fault av_klm_iter_expand(const struct av_span *span, uint64_t offset,
						 uint64_t bytes, struct av_run *run);
void av_klm_iter_drop(struct av_run *run);

#endif
