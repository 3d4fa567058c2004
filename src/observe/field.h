/* SPDX-License-Identifier: MIT */
/* The fields of a record: one table for the sentences ({name}) and for JSON. */
#ifndef AV_OBSERVE_FIELD_H
#define AV_OBSERVE_FIELD_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/flight.h"

/* How a field is written. In JSON those that are numbers are numbers, HEX ones too. */
enum av_field_form {
	AV_FIELD_DEC,
	AV_FIELD_SIGNED,
	AV_FIELD_HEX,
	AV_FIELD_TEXT,
	AV_FIELD_CHECK,
	AV_FIELD_KIND,
	AV_FIELD_OBJECT,
	AV_FIELD_VERB,
	AV_FIELD_OPCODE,
	AV_FIELD_STATUS,
	AV_FIELD_ERRNO,
	AV_FIELD_EVENT,
	AV_FIELD_STATE,
	AV_FIELD_ACCESS,
	AV_FIELD_REGION_KIND,
	AV_FIELD_FAULT,
	AV_FIELD_FORM_N
};

struct av_field {
	const char *name;
	uint16_t offset, bytes;
	uint8_t form;	/* enum av_field_form */
	uint32_t group; /* bits of AV_HAS_: one of them makes it mean something; 0: always */
};

#define AV_FIELD_TEXT_MAX 160 /* bytes that a field as text needs at most, NUL included */

const struct av_field *av_fields(unsigned int *count);

/* NULL if there is none of that name, which ends before @end. */
const struct av_field *av_field_find(const char *name, const char *end);

/* Does it mean something in this record? */
bool av_field_is_set(const struct av_field *field, const struct av_flight_record *record);

/* Of a field that is no text. */
int64_t av_field_number(const struct av_field *field, const struct av_flight_record *record);

/* Is it written as a number in every form? */
bool av_field_is_number(const struct av_field *field);

/* Write it in @form, its own or another that a sentence asks for. Always ends with a NUL. */
void av_field_write(const struct av_field *field, unsigned int form,
		    const struct av_flight_record *record, char text[AV_FIELD_TEXT_MAX]);

/* The form behind the colon of a placeholder, {name:form}; AV_FIELD_FORM_N: there is none of that
 * name. */
unsigned int av_field_form(const char *name, const char *end);

#endif
