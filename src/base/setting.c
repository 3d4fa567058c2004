/* SPDX-License-Identifier: MIT */
#include "base/setting.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum { NOT_ASKED, NO, YES };

bool av_setting_is(struct av_setting *s)
{
	int answer = atomic_load_explicit(&s->answer, memory_order_relaxed);
	const char *text;

	if (av_likely(answer != NOT_ASKED))
		return answer == YES;
	text = secure_getenv(s->variable);
	answer = text && strcmp(text, s->value) == 0 ? YES : NO;
	atomic_store_explicit(&s->answer, answer, memory_order_relaxed);
	return answer == YES;
}
