/* SPDX-License-Identifier: MIT */
/* Overwriting the segment of this process's own context. */
#ifndef SPOILED_FLIPS_H
#define SPOILED_FLIPS_H

#include <stdint.h>

#include "spoiled/chance.h"

#define FLIPS_VALUES 8

struct flips {
	struct chance chance;
	uint8_t *segment;
	struct {
		uint64_t at, bytes;
		uint32_t weight;
	} part[256]; /* what is in use, by offset */
	uint32_t parts, weight;
	uint64_t hot[128]; /* words of 32 bits that others wait for, or go round by */
	uint32_t hots;
	uint64_t value[FLIPS_VALUES]; /* what words of that kind hold: processes, contexts */
};

/*
 * Find the segment, the only one that this process has mapped, and what of it is in use now. The
 * context is open, and has not met any peer.
 */
void flips_begin(struct flips *f, uint64_t seed);

/*
 * Who this process is, in its segment's words: its process, its PID, its context. Before it meets
 * any peer.
 */
void flips_identity(uint64_t value[3]);

/* Words may become those of another process, too. @value: flips_identity() there */
void flips_know(struct flips *f, const uint64_t value[3]);

/* Overwrite a word, and mostly put it back after a moment. */
void flips_one(struct flips *f);

#endif
