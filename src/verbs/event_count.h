/* SPDX-License-Identifier: MIT */
/* Counts the events of an object, whose destruction waits until all are acknowledged. */
#ifndef AV_VERBS_EVENT_COUNT_H
#define AV_VERBS_EVENT_COUNT_H

#include "verbs/misuse.h"

/*
 * Remove an object from a table through which events are delivered. Afterwards no new event finds
 * the object, and all earlier ones have been counted.
 */
void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle);

/* Count @n acknowledgements of an object's events; its destruction waits for them. */
void av_event_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			  uint32_t n);

/*
 * Wait until @completed has caught up with @delivered. Both are guarded by @mutex, which the caller
 * does not hold. @of: the object, for the report on misuse if the wait is long.
 */
void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, const struct av_misuse_object *of);

#endif
