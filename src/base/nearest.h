/* SPDX-License-Identifier: MIT */
/* Which word was meant: the known word that a mistyped one comes closest to. A pure function. */
#ifndef AV_BASE_NEAREST_H
#define AV_BASE_NEAREST_H

#include <stddef.h>

#include "base/word.h"

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
