/* SPDX-License-Identifier: MIT */
/*
 * Capture files: the smallest part of pcapng that holds Ethernet frames with nanosecond timestamps.
 * Every file begins with the same bytes, one section with one interface; only packet blocks follow.
 * One write() appends each, so blocks of several processes never interleave, and nobody holds
 * others up. Source: draft-ietf-opsawg-pcapng, sections 4.1 to 4.3.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_PCAPNG_COMMENT_MAX 128 /* longest comment, without NUL */
#define AV_PCAPNG_DATA_AT     28  /* offset of the frame within its block */

/* Most bytes of a block beside its frame: header, padding, comment, direction, end, trailer. */
#define AV_PCAPNG_AROUND_MAX (AV_PCAPNG_DATA_AT + 3 + 4 + AV_PCAPNG_COMMENT_MAX + 8 + 4 + 4)

/* The values are those of the option epb_flags. */
enum av_pcapng_direction {
	AV_PCAPNG_NOWHERE = 0, /* it was on no wire */
	AV_PCAPNG_INBOUND = 1,
	AV_PCAPNG_OUTBOUND = 2,
};

struct av_pcapng_frame {
	uint64_t time_ns;    /* CLOCK_REALTIME */
	uint32_t captured;   /* bytes captured */
	uint32_t length;     /* bytes the frame had */
	const char *comment; /* at most AV_PCAPNG_COMMENT_MAX bytes of UTF-8; NULL: none */
	enum av_pcapng_direction direction;
};

/*
 * Build the block around a frame whose bytes are at AV_PCAPNG_DATA_AT of @block, which has room for
 * frame->captured + AV_PCAPNG_AROUND_MAX. Return: bytes of the block. A pure function.
 */
size_t av_pcapng_block(uint8_t *block, const struct av_pcapng_frame *frame);

/*
 * Open a capture file for appending; create it if missing. @anew: discard what the file holds
 * Context: blocks while another process opens the same file.
 * Return: descriptor (close-on-exec), or -errno; -EINVAL: not a regular file; -EBADMSG: not ours
 */
AV_MUST_USE int av_pcapng_open(const char *path, bool anew);

/*
 * Append whole blocks. A partial write on a full disk is cut off again. Raises no signal.
 * Context: one thread at a time per descriptor. Return: 0 or -errno
 */
AV_MUST_USE int av_pcapng_append(int fd, const uint8_t *blocks, size_t bytes);
