/* SPDX-License-Identifier: MIT */
/*
 * Cuts a copy that the kernel makes, so that others see whole words and the last byte last.
 *
 * The kernel copies each element of an iovec with one byte-string instruction. Stores of one such
 * instruction to different 64-byte lines may become visible in any order; stores of different
 * instructions keep their order (Intel SDM volume 3, "Memory-ordering model for string
 * operations"). Measured beyond that: within a line, stores ascend. Words stay whole in whole
 * lines, and in one element that covers the rest of a line. But elements of only one or two words
 * are stored byte by byte, and so are words after a partial one. So a copy is cut in four: up to
 * the first word boundary of the destination, from there to the first line boundary, whole lines,
 * and the last line, partial or whole.
 *
 * Pure functions. Both ends need equal alignment within a line; the callers deal with other cases.
 */
#ifndef AV_COPY_PIECES_H
#define AV_COPY_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define AV_PIECES_WORD 8u
#define AV_PIECES_LINE 64u
#define AV_PIECES_MAX  4u

struct av_pieces {
	struct iovec at[AV_PIECES_MAX];
	size_t count;
};

/*
 * Cut [@memory, @memory + @bytes) at the boundaries of a destination at @dst. @memory is the
 * destination itself or the source, whichever end the vector describes. No piece is empty; 0 bytes
 * give 0 pieces.
 */
void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes);

#endif
