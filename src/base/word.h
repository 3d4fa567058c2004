/* SPDX-License-Identifier: MIT */
/* Words of a text that somebody wrote: settings, rules, names in braces. Pure functions. */
#ifndef AV_BASE_WORD_H
#define AV_BASE_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
static inline bool av_word_number(struct av_word w, unsigned int base, uint64_t *value)
{
	*value = 0;
	for (size_t i = 0; i < w.len; i++) {
		char c = w.text[i], letter = (char)(c | 0x20);
		unsigned int d = c >= '0' && c <= '9' ? (unsigned int)(c - '0')
				 : letter >= 'a' && letter <= 'f'
					 ? (unsigned int)(letter - 'a' + 10)
					 : base;

		if (d >= base || *value > (UINT64_MAX - d) / base)
			return false;
		*value = *value * base + d;
	}
	return w.len > 0;
}

#endif
