/* SPDX-License-Identifier: MIT */
/*
 * How the kernel is told to copy, so that others see whole words and the last byte last.
 *
 * The kernel copies each element of a vector with one byte-string instruction (or by a loop of its own).
 * Within one such instruction stores come in any order, and words are torn where the processor's 64-byte
 * steps, or the bytes left over at the end, cut them; stores of different instructions keep their order
 * (Intel SDM volume 3, "Memory-ordering model for string operations"). So a copy is cut into pieces:
 * naturally aligned ones of 1 to 8 bytes up to the first 64-byte boundary of the destination, the body, and
 * small ones again to the end.
 *
 * Pure functions; they need equal alignment of both ends (see the callers for what is done where they
 * differ).
 */
#ifndef AV_BASE_PIECES_H
#define AV_BASE_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define AV_PIECES_STEP 64u
#define AV_PIECES_MAX  24u /* 3 + 7 up to the boundary, the body, 8 + 3 behind it, and 2 spare */

struct av_pieces {
	struct iovec at[AV_PIECES_MAX];
	size_t count;
};

/*
 * Cut [@memory, @memory + @bytes) where a destination at @dst wants it cut. @memory is the destination itself
 * or the source, whichever end the vector describes. No piece is empty; 0 bytes are 0 pieces.
 */
void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes);

#endif
