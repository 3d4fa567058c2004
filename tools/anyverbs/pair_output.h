/* SPDX-License-Identifier: MIT */
/*
 * What a pair shows. Nobody may be reading it: it is written for a moment at a time, so that the
 * pair still has an eye on its sides, on the time and on signals.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* Add to what is shown. Neither waits: av_pair_flush() writes it. */
void av_pair_print(const char *fmt, ...) AV_PRINTF(1, 2);
void av_pair_put(const char *bytes, size_t count);

/* Write what has been added, for a moment. Return: true: nothing is left */
bool av_pair_flush(void);

/* From now on, no write waits for more than a moment, to standard error neither; or each may. */
void av_pair_hurry(bool on);

/* Return: 0, or the errno for which output has been lost */
int av_pair_unwritten(void);
