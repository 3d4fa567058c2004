/* SPDX-License-Identifier: MIT */
/* Events of an object: delivered, acknowledged, and waited for before the object ends. */
#ifndef AV_VERBS_EVENT_COUNT_H
#define AV_VERBS_EVENT_COUNT_H

#include "verbs/misuse.h"

/*
 * Take an object out of a table through which events are delivered: no event finds it any more, and
 * those that did have been counted.
 */
void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle);

/* Acknowledge @n events of an object: those who wait for that go on. */
void av_event_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			  uint32_t n);

/*
 * Wait, mutex not held, until @completed has caught up with @delivered; both guarded by @mutex.
 * @of: whose events these are, for the report on misuse, if it takes long.
 */
void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, const struct av_misuse_object *of);

#endif
