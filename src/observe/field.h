/* SPDX-License-Identifier: MIT */
/* The fields of a record. One table serves the sentences ({name}) and JSON. */
#ifndef AV_OBSERVE_FIELD_H
#define AV_OBSERVE_FIELD_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "observe/flight.h"

/* How a field is written. In JSON the numeric forms, down to ID, are numbers. */
enum av_field_form {
	AV_FIELD_DEC,
	AV_FIELD_SIGNED,
	AV_FIELD_HEX,
	AV_FIELD_QPN, /* as programs print it: 0x020011 */
	AV_FIELD_ID,  /* decimal, or hex if it is larger than 32 bits: a pointer */
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
	AV_FIELD_MTU,
	AV_FIELD_TYPE, /* enum ibv_qp_type */
	AV_FIELD_ACCESS,
	AV_FIELD_MASK, /* enum ibv_qp_attr_mask */
	AV_FIELD_REGION_KIND,
	AV_FIELD_FAULT,
	AV_FIELD_GID,
	AV_FIELD_CM_PHASE,
	AV_FIELD_CM_PHASES, /* a set of them */
	AV_FIELD_FORM_N
};

struct av_field {
	const char *name;
	uint16_t offset, bytes;
	uint8_t form;	/* enum av_field_form */
	uint32_t group; /* bits of AV_HAS_, any of which makes the field valid; 0: always valid */
};

#define AV_FIELD_TEXT_MAX 160 /* longest text of a field, NUL included */

const struct av_field *av_fields(unsigned int *count);

/* The field of that name; NULL: unknown. */
const struct av_field *av_field_find(struct av_word name);

/* Is the field valid in this record? */
bool av_field_is_set(const struct av_field *field, const struct av_flight_record *record);

/* The value of a field. Not for AV_FIELD_TEXT, AV_FIELD_GID. */
int64_t av_field_number(const struct av_field *field, const struct av_flight_record *record);

/* Is its natural form a number? */
bool av_field_is_number(const struct av_field *field);

/* Write the field in @form: its own, or one that a sentence asks for. Always ends with a NUL. */
void av_field_write(const struct av_field *field, unsigned int form,
		    const struct av_flight_record *record, char text[AV_FIELD_TEXT_MAX]);

/* The word for a value in one of the forms KIND to CM_PHASE that have a list of them; NULL: none.
 */
const char *av_field_word(unsigned int form, uint64_t value);

/* The form named in a placeholder {name:form}; AV_FIELD_FORM_N: unknown. */
unsigned int av_field_form(struct av_word name);

#endif
