/* SPDX-License-Identifier: MIT */
/*
 * Words and numbers of a text, settings in the environment, and the known word that was meant.
 */
#ifndef AV_BASE_TEXT_H
#define AV_BASE_TEXT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* Words of a text that somebody wrote: settings, rules, names in braces. Pure functions. */

/* A piece of a longer text, so not NUL-terminated. */
struct av_word {
	const char *text;
	size_t len;
};

static inline bool av_word_is(struct av_word w, const char *name)
{
	return w.len == strlen(name) && !memcmp(w.text, name, w.len);
}

/* How many bytes of the word a complaint quotes, for printf's "%.*s". */
static inline int av_word_quote(struct av_word w, int most)
{
	return w.len < (size_t)most ? (int)w.len : most;
}

/* Digits of @base (10 or 16) and nothing else. Return: false also if the number overflows. */
static inline bool av_word_number(struct av_word w, int base, uint64_t *value)
{
	int saved = errno;
	bool fits;

	if (!w.len || strspn(w.text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") != w.len)
		return false;
	errno = 0;
	*value = strtoull(w.text, NULL, base);
	fits = errno == 0;
	errno = saved;
	return fits;
}

/* Environment variables that turn something on, each read once in a process. */

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

/* Which word was meant: the known word that a mistyped one comes closest to. A pure function. */

/* The known words: the word of row @i, or NULL after the last. */
typedef const char *(*av_word_list)(size_t i);

/**
 * av_word_nearest() - the known word that takes the fewest typing mistakes to become @word
 *
 * A mistake is a letter too many, too few or wrong, or two neighbours swapped. Upper and lower case
 * are the same. One mistake in three letters is still near, and three in all. A longer known word
 * that begins with @word (three letters or more) is near, too.
 * Context: any thread; allocates nothing
 * Return: the first of the nearest; NULL if none is near
 */
const char *av_word_nearest(struct av_word word, av_word_list list);

#endif
