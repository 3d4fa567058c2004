/* SPDX-License-Identifier: MIT */
/* Handles that do not come from a table of the segment: numbers from 1, reused late. */
#ifndef AV_VERBS_HANDLES_H
#define AV_VERBS_HANDLES_H

#include <pthread.h>

#include "base/table.h"

struct av_handles {
	struct av_table table;
	pthread_mutex_t mutex;
	uint32_t base; /* handles are base + 1, ... */
	uint32_t last, used;
};

/* @limit: below AV_TABLE_CHUNKS * AV_TABLE_CHUNK. Return: handle, or 0 and errno ENOMEM. */
AV_MUST_USE uint32_t av_handles_add(struct av_handles *handles, void *object, uint32_t limit);
void av_handles_remove(struct av_handles *handles, uint32_t handle);

#endif
