/* SPDX-License-Identifier: MIT */
/* The process that must come to no harm. */
#ifndef SPOILED_TARGET_H
#define SPOILED_TARGET_H

#include <stdint.h>

#define TARGET_WORD "--target"

struct target_order {
	uint64_t seed, flips;
	uint64_t seconds; /* it ends then at the latest; 0: never */
};

/* Does not return if this process was started as that one. */
void target_main(int argc, char **argv);

#endif
