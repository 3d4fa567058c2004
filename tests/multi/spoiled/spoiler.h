/* SPDX-License-Identifier: MIT */
/* The process whose own segment is nonsense, and what it and the other one tell each other. */
#ifndef SPOILED_SPOILER_H
#define SPOILED_SPOILER_H

#include "spoiled/gear.h"

#define SPOILER_WORD "--spoiler"

/* Connect; then, when the other side has, too: start; and whenever something has failed: again. */
enum spoiler_order { SPOILER_BEGIN, SPOILER_GO, SPOILER_RECONNECT };

struct spoiler_begin {
	enum spoiler_order order;
	uint64_t seed, most; /* flips */
	uint64_t value[3];   /* of the other process: flips_identity() */
	struct gear_info info;
};

/* What it says: after an order, that it is done; from time to time, how many flips there were. */
struct spoiler_note {
	bool connected;
	uint64_t flips; /* since the last note */
	struct gear_info info;
};

/* Does not return if this process was started as that one. */
void spoiler_main(int argc, char **argv);

#endif
