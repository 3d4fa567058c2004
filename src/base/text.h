/* SPDX-License-Identifier: MIT */
/* Words and numbers in a text, and settings in the environment. */
#pragma once

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* A word of a longer text, which ends with a NUL. The functions of words are pure. */
struct av_word {
	const char *text;
	size_t len;
};

static inline bool av_word_is(struct av_word w, const char *name)
{
	return w.len == strlen(name) && !memcmp(w.text, name, w.len);
}

/* Bytes of the word to quote in a message, for printf's "%.*s". */
static inline int av_word_quote(struct av_word w, int most)
{
	return w.len < (size_t)most ? (int)w.len : most;
}

/* Parse a word of digits of @base (10 or 16). Return: false: it has others, or overflows */
static inline bool av_word_number(struct av_word w, int base, uint64_t *value)
{
	AV_ERRNO_KEPT;

	if (!w.len || strspn(w.text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") != w.len)
		return false;
	errno = 0;
	*value = strtoull(w.text, NULL, base);
	return errno == 0;
}

/* Is it one of the words between the commas of @list? */
static inline bool av_list_has(const char *list, const char *name)
{
	for (;; list++) {
		struct av_word w = {list, strcspn(list, ",")};

		if (av_word_is(w, name))
			return true;
		list += w.len;
		if (!*list)
			return false;
	}
}

/* An environment variable that turns something on, read once per process. */
struct av_setting {
	const char *variable, *value; /* NULL: any value */
	_Atomic int answer;	      /* 1: yes; -1: no; 0: not asked yet */
};

/* Is that one of its values, between commas? Never in a set-user-ID program. Context: any thread.
 */
static inline bool av_setting_is(struct av_setting *s)
{
	int answer = atomic_load_explicit(&s->answer, memory_order_relaxed);
	const char *text;

	if (av_likely(answer))
		return answer > 0;
	text = secure_getenv(s->variable);
	answer = text && (!s->value || av_list_has(text, s->value)) ? 1 : -1;
	atomic_store_explicit(&s->answer, answer, memory_order_relaxed);
	return answer > 0;
}

/* Known words: the word of row @i, or NULL after the last. */
typedef const char *(*av_word_list)(size_t i);

/*
 * The known word that @word probably means: the first with the fewest typing mistakes. A mistake is
 * a missing, additional or wrong letter, or two swapped neighbours; case does not matter. At most
 * one mistake in three letters, and three in all. One that begins with @word (three letters or
 * more) is near, too. Allocates nothing. NULL: none is near
 */
const char *av_word_nearest(struct av_word word, av_word_list list);
