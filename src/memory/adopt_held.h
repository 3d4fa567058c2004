/* SPDX-License-Identifier: MIT */
/*
 * Moving pages there and back while other threads of the program use them: those that touch them
 * wait, and their stores are in what is moved, or in what is there afterwards (memory/hold.h).
 */
#ifndef AV_MEMORY_ADOPT_HELD_H
#define AV_MEMORY_ADOPT_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "memory/adopt_pages.h"

/*
 * May other threads go on while pages of the range move? The range can be held; what the kernel
 * keeps of a thread (its end is told to its joiner there, without waiting for pages) is not in it;
 * and no file is open from which the kernel reads past its own cache, since not all of those mark
 * the pages that they read into. Context: any thread; system calls for each thread and file
 */
AV_MUST_USE bool av_adopt_can_hold(uint64_t begin, uint64_t bytes);

/* Bytes of the program's, from one address to another place: in a file, or in memory. Return:
 * false: not all. No lock, no heap: see memory/hold.h */
struct av_adopt_copy {
	int fd;		      /* of the segment */
	uint64_t addr, bytes; /* in the program; whole pages */
	uint64_t at;	      /* offset in the segment */
	int prot;	      /* rights of the mapping that comes */
	bool huge;	      /* with huge pages, if there are any */
	bool (*copy)(const struct av_adopt_copy *c, uint64_t memory); /* between there and here */
};

/* The segment's pages, with what is in the program's, come to the program's place. Context: as
 * av_adopt_move_in(), signals blocked. Return: false: nothing has changed */
AV_MUST_USE bool av_adopt_held_in(const struct av_adopt_copy *c);

/* Private memory, with what is in the segment's pages, comes there. Context: as
 * av_adopt_move_out(), signals blocked. Return: false: nothing has changed */
AV_MUST_USE bool av_adopt_held_out(const struct av_adopt_copy *c);

/*
 * From begin to end the one memory takes the place of the other while threads go on: what they
 * discard of the one may be in the other already, so they do it again when
 * av_adopt_exchange_settle() gives another number than before. Between the two nothing is waited
 * for that who discards may hold. One at a time, signals blocked.
 */
void av_adopt_exchange_begin(void);
void av_adopt_exchange_end(void);
uint64_t av_adopt_exchange_settle(void);

#endif
