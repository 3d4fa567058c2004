/* SPDX-License-Identifier: MIT */
/*
 * Stores that take long, so that the next one is seen by others long after loads behind it are
 * done: what only a full barrier between the two prevents.
 */
#ifndef TEST_FAR_STORES_H
#define TEST_FAR_STORES_H

#include <stdint.h>

#define FAR_BYTES  (16u << 20) /* more than a core's own cache */
#define FAR_STORES 24u	       /* fewer than a core holds back */

static inline void store_far_away(void)
{
	static uint8_t far[FAR_BYTES];
	static _Thread_local uint32_t n;

	for (uint32_t i = 0; i < FAR_STORES; i++)
		__atomic_store_n(&far[n++ * 0x9e3779b1u % FAR_BYTES], 1, __ATOMIC_RELAXED);
}

#endif
