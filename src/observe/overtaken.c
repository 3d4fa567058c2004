/* SPDX-License-Identifier: MIT */
#include "observe/overtaken.h"

#include <stdlib.h>

void *av_overtaken_add(struct av_overtaken *o, size_t bytes, const struct av_faults_verdict *v,
		       uint64_t now_ns)
{
	struct av_late *late = o->count < AV_OVERTAKEN_MAX ? malloc(bytes) : NULL;
	struct av_late **at = &o->first;

	if (!late)
		return NULL;
	*late = (struct av_late){
		.times = v->times,
		.left = v->delay_ns ? UINT32_MAX : v->after,
		.until_ns = now_ns + (v->delay_ns ? v->delay_ns : AV_OVERTAKEN_NS),
	};
	while (*at)
		at = &(*at)->next;
	*at = late;
	o->count++;
	return late;
}

void av_overtaken_pass(struct av_overtaken *o)
{
	for (struct av_late *late = o->first; late; late = late->next)
		if (late->left != UINT32_MAX)
			late->left -= late->left > 0;
}

void *av_overtaken_take(struct av_overtaken *o, uint64_t now_ns)
{
	struct av_late **at = &o->first, *late;

	while (*at && (*at)->left && (*at)->until_ns > now_ns)
		at = &(*at)->next;
	late = *at;
	if (late) {
		*at = late->next;
		o->count--;
	}
	return late;
}

uint64_t av_overtaken_next(const struct av_overtaken *o)
{
	uint64_t next = UINT64_MAX;

	for (const struct av_late *late = o->first; late; late = late->next)
		if (late->until_ns < next)
			next = late->until_ns;
	return next;
}
