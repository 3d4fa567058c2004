/* SPDX-License-Identifier: MIT */
/* Handles from numbers, for objects without a place in the segment. */
#ifndef AV_BASE_HANDLES_H
#define AV_BASE_HANDLES_H

#include <pthread.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/table.h"

/* Numbers from 1, reused late. */
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
