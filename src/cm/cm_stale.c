/* SPDX-License-Identifier: MIT */
#include "cm/cm_stale.h"

#include <string.h>

#define REMEMBERED 256u

static struct stale {
	uint8_t from[16];
	uint32_t comm; /* 0: none */
	uint64_t transaction;
} all[REMEMBERED];
static unsigned int next;

void av_cm_stale_add(const uint8_t from[16], uint32_t comm, uint64_t transaction)
{
	struct stale *s = &all[next++ % REMEMBERED];

	memcpy(s->from, from, sizeof(s->from));
	s->comm = comm;
	s->transaction = transaction;
}

bool av_cm_stale_is(const uint8_t from[16], uint32_t comm, uint64_t transaction)
{
	for (const struct stale *s = all; comm && s < all + REMEMBERED; s++)
		if (s->comm == comm && s->transaction == transaction &&
		    memcmp(s->from, from, sizeof(s->from)) == 0)
			return true;
	return false;
}
