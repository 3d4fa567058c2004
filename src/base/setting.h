/* SPDX-License-Identifier: MIT */
/* Environment variables that turn something on, each read once in a process. */
#ifndef AV_BASE_SETTING_H
#define AV_BASE_SETTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct av_setting {
	const char *variable, *value; /* NULL: any value */
	_Atomic int answer;	      /* 1: yes; -1: no; 0: not asked yet */
};

/* Does it have that value? Never with another user's privileges. Context: any thread. */
static inline bool av_setting_is(struct av_setting *s)
{
	int answer = atomic_load_explicit(&s->answer, memory_order_relaxed);
	const char *text;

	if (av_likely(answer))
		return answer > 0;
	text = secure_getenv(s->variable);
	answer = text && (!s->value || strcmp(text, s->value) == 0) ? 1 : -1;
	atomic_store_explicit(&s->answer, answer, memory_order_relaxed);
	return answer > 0;
}

#endif
