/* SPDX-License-Identifier: MIT */
/*
 * Capture files: the smallest part of pcapng that holds Ethernet frames with nanoseconds, and
 * appending to a file to which other processes append, too.
 *
 * Every file begins with the same bytes: a section of one interface. After them come packets only,
 * each a block that is written by one write() at the end of the file, where the kernel lets in one
 * writer at a time: blocks of several processes never interleave, and nobody waits for a process
 * that is stopped.
 *
 * Source: draft-ietf-opsawg-pcapng, sections 4.1 to 4.3.
 */
#ifndef AV_OBSERVE_PCAPNG_H
#define AV_OBSERVE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_PCAPNG_COMMENT_MAX 128 /* of text */
#define AV_PCAPNG_DATA_AT     28  /* where in a block its frame begins */

/* Bytes of a block around a frame at most: before it, padding, a comment, and after it. */
#define AV_PCAPNG_AROUND_MAX (AV_PCAPNG_DATA_AT + 3 + 4 + AV_PCAPNG_COMMENT_MAX + 4 + 4)

/* A frame of a capture. */
struct av_pcapng_frame {
	uint64_t time_ns;    /* CLOCK_REALTIME */
	uint32_t captured;   /* bytes that are there, */
	uint32_t length;     /* of so many */
	const char *comment; /* at most AV_PCAPNG_COMMENT_MAX bytes of UTF-8; NULL: none */
};

/**
 * av_pcapng_block() - make the block of a frame whose bytes are there already
 * @block: frame->captured bytes from AV_PCAPNG_DATA_AT on, and room for AV_PCAPNG_AROUND_MAX more
 * Return: bytes of the block. A pure function.
 */
size_t av_pcapng_block(uint8_t *block, const struct av_pcapng_frame *frame);

/**
 * av_pcapng_open() - open a capture file to append to it
 * @anew: what is in it is thrown away; else a file is made if there is none, and one that does not
 * begin as ours do is refused
 *
 * Context: waits for who else is opening it. Return: descriptor (close-on-exec), or -errno;
 * -EINVAL: no regular file; -EBADMSG: one of another kind
 */
AV_MUST_USE int av_pcapng_open(const char *path, bool anew);

/**
 * av_pcapng_append() - append whole blocks
 *
 * All or nothing, as far as that can be: if the disk is full, the part that was written is cut off
 * again. The program gets no signal for it. Context: one thread at a time for a descriptor. Return:
 * 0 or -errno
 */
AV_MUST_USE int av_pcapng_append(int fd, const uint8_t *blocks, size_t bytes);

#endif
