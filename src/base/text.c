/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <strings.h>
#include <sys/param.h>

#define LETTERS_MAX  40 /* longer words are near to none */
#define MISTAKES_MAX 3u
#define FAR	     1000u

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Optimal string alignment distance: F. J. Damerau, Communications of the ACM 7(3), 1964. */
static unsigned int mistakes(struct av_word a, const char *b, size_t b_len)
{
	unsigned int d[LETTERS_MAX + 1][LETTERS_MAX + 1];

	for (size_t i = 0; i <= a.len; i++)
		d[i][0] = (unsigned int)i;
	for (size_t j = 0; j <= b_len; j++)
		d[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= a.len; i++) {
		for (size_t j = 1; j <= b_len; j++) {
			char x = lower(a.text[i - 1]), y = lower(b[j - 1]);

			d[i][j] =
				MIN(d[i - 1][j - 1] + (x != y), MIN(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a.text[i - 2]) == y)
				d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[a.len][b_len];
}

static unsigned int distance(struct av_word word, const char *known)
{
	size_t len = strlen(known);

	if (word.len > LETTERS_MAX || len > LETTERS_MAX)
		return FAR;
	if (word.len >= 3 && len > word.len && !strncasecmp(word.text, known, word.len))
		return 1;
	return mistakes(word, known, len);
}

const char *av_word_nearest(struct av_word word, av_word_list list)
{
	unsigned int best = MIN((unsigned int)(word.len + 2) / 3, MISTAKES_MAX) + 1;
	const char *nearest = NULL, *known;

	for (size_t i = 0; word.len > 1 && (known = list(i)); i++) {
		unsigned int d = distance(word, known);

		if (d < best) {
			best = d;
			nearest = known;
		}
	}
	return nearest;
}
