/* SPDX-License-Identifier: MIT */
/*
 * How the kernel is told to copy, so that others see whole words and the last byte last.
 *
 * The kernel copies each element of a vector with one byte-string instruction. Within one such
 * instruction stores to different 64-byte lines may become visible in any order; those of different
 * instructions keep their order (Intel SDM volume 3, "Memory-ordering model for string
 * operations"). Measured beyond that: within a line they ascend; words stay whole in whole lines,
 * and in one element for the rest of a line, but a row of elements of a word or two is stored byte
 * by byte, and so are words behind a part of one. So a copy is cut in four: to the first word
 * boundary of the destination, from there to the first line boundary, whole lines, and the last
 * line, which may be a part or a whole.
 *
 * Pure functions; they need equal alignment of both ends within a line (see the callers for what is
 * done where that differs).
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
 * Cut [@memory, @memory + @bytes) where a destination at @dst wants it cut. @memory is the
 * destination itself or the source, whichever end the vector describes. No piece is empty; 0 bytes
 * are 0 pieces.
 */
void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes);

#endif
