/* SPDX-License-Identifier: MIT */
/* A record in English. */
#ifndef AV_OBSERVE_EXPLAIN_H
#define AV_OBSERVE_EXPLAIN_H

#include <stddef.h>

#include "observe/flight.h"

#define AV_EXPLAIN_MAX 1024 /* bytes of the two lines at most, NUL included */

/**
 * av_explain() - one sentence, and behind it a line of advice where there is one
 * @text: out; each line is ended by a newline; longer ones are cut
 * Return: bytes, the NUL not counted
 */
size_t av_explain(const struct av_flight_record *record, char text[AV_EXPLAIN_MAX]);

/* The sentence with its {fields}, and nothing else. */
void av_explain_sentence(const char *sentence, const struct av_flight_record *record, char *text,
			 size_t size);

#endif
