/* SPDX-License-Identifier: MIT */
/* Turns a record into English. */
#ifndef AV_OBSERVE_EXPLAIN_H
#define AV_OBSERVE_EXPLAIN_H

#include <stddef.h>

#include "observe/flight.h"

#define AV_EXPLAIN_MAX 1024 /* bytes of both lines, NUL included */

/*
 * One sentence, and a second line of advice if the check has any. Each line ends in a newline; what
 * is too long is cut. Return: bytes written, without the NUL
 */
size_t av_explain(const struct av_flight_record *record, char text[AV_EXPLAIN_MAX]);

/* Only the sentence, with its {fields} filled in. */
void av_explain_sentence(const char *sentence, const struct av_flight_record *record, char *text,
			 size_t size);

#endif
