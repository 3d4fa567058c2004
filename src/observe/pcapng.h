/* SPDX-License-Identifier: MIT */
/*
 * Capture files: the smallest part of pcapng that holds Ethernet frames with nanosecond timestamps.
 * Several processes may append to one file.
 *
 * Every file begins with the same bytes: one section with one interface. Only packet blocks follow.
 * Each is appended by one write(), and the kernel admits one writer at a time. So blocks of several
 * processes never interleave, and a stopped process holds nobody up.
 *
 * Source: draft-ietf-opsawg-pcapng, sections 4.1 to 4.3.
 */
#ifndef AV_OBSERVE_PCAPNG_H
#define AV_OBSERVE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_PCAPNG_COMMENT_MAX 128 /* longest comment, without NUL */
#define AV_PCAPNG_DATA_AT     28  /* offset of the frame within its block */

/* Most bytes of a block beside its frame: header, padding, comment, trailer. */
#define AV_PCAPNG_AROUND_MAX (AV_PCAPNG_DATA_AT + 3 + 4 + AV_PCAPNG_COMMENT_MAX + 4 + 4)

/* A frame of a capture. */
struct av_pcapng_frame {
	uint64_t time_ns;    /* CLOCK_REALTIME */
	uint32_t captured;   /* bytes captured */
	uint32_t length;     /* bytes the frame had */
	const char *comment; /* at most AV_PCAPNG_COMMENT_MAX bytes of UTF-8; NULL: none */
};

/**
 * av_pcapng_block() - build the block around a frame that is already in place
 * @block: the frame's bytes start at AV_PCAPNG_DATA_AT; needs room for frame->captured +
 *   AV_PCAPNG_AROUND_MAX
 * Return: bytes of the block. A pure function.
 */
size_t av_pcapng_block(uint8_t *block, const struct av_pcapng_frame *frame);

/**
 * av_pcapng_open() - open a capture file for appending; create it if missing
 * @anew: discard what the file holds
 *
 * Context: blocks while another process opens the same file.
 * Return: descriptor (close-on-exec), or -errno; -EINVAL: not a regular file; -EBADMSG: not a file
 * that begins as ours do
 */
AV_MUST_USE int av_pcapng_open(const char *path, bool anew);

/**
 * av_pcapng_append() - append whole blocks
 *
 * If the disk fills up, the partial write is cut off again. Raises no signal.
 * Context: one thread at a time per descriptor. Return: 0 or -errno
 */
AV_MUST_USE int av_pcapng_append(int fd, const uint8_t *blocks, size_t bytes);

#endif
