/* SPDX-License-Identifier: MIT */
/* Counts the events of objects. */
#include "verbs/event_count.h"

#include <time.h>

#define SAY_AFTER_S 1 /* report a wait for acknowledgements after this time */

void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle)
{
	pthread_mutex_lock(&ctx->verbs.context.mutex);
	av_table_clear(table, handle);
	pthread_mutex_unlock(&ctx->verbs.context.mutex);
}

void av_event_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			  uint32_t n)
{
	pthread_mutex_lock(mutex);
	*completed += n;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

/* Lets a program learn why it hangs: a forgotten acknowledgement. Context: @mutex held. */
static void wait_and_say(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
			 const uint32_t *delivered, const struct av_misuse_object *of)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SAY_AFTER_S;
	while (*completed != *delivered && !pthread_cond_timedwait(cond, mutex, &until))
		;
	if (*completed != *delivered)
		av_misuse_waits(of, *delivered - *completed);
}

void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, const struct av_misuse_object *of)
{
	pthread_mutex_lock(mutex);
	if (av_misuse_on())
		wait_and_say(mutex, cond, completed, delivered, of);
	while (*completed != *delivered)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
