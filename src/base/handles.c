/* SPDX-License-Identifier: MIT */
#include "base/handles.h"

#include <errno.h>

/* The next free number after the last used. Context: the mutex is held, and a number is free. */
static uint32_t next_free(struct av_handles *handles, uint32_t limit)
{
	uint32_t n = handles->last;

	do
		n = n >= limit ? 1 : n + 1;
	while (av_table_get(&handles->table, handles->base + n));
	return n;
}

uint32_t av_handles_add(struct av_handles *handles, void *object, uint32_t limit)
{
	uint32_t handle = 0;

	pthread_mutex_lock(&handles->mutex);
	if (handles->used < limit) {
		uint32_t n = next_free(handles, limit);

		handle = handles->base + n;
		if (av_table_set(&handles->table, handle, object) == 0) {
			handles->last = n;
			handles->used++;
		} else {
			handle = 0;
		}
	}
	pthread_mutex_unlock(&handles->mutex);
	if (!handle)
		errno = ENOMEM;
	return handle;
}

void av_handles_remove(struct av_handles *handles, uint32_t handle)
{
	pthread_mutex_lock(&handles->mutex);
	av_table_clear(&handles->table, handle);
	handles->used--;
	pthread_mutex_unlock(&handles->mutex);
}
