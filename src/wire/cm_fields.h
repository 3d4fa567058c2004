/* SPDX-License-Identifier: MIT */
/*
 * Where the fields of each message of connection management are: the tables of IBTA volume 1, 12.6.
 * The bits for enhanced connection establishment, which are reserved there, are the Linux kernel's.
 */
#ifndef AV_WIRE_CM_FIELDS_H
#define AV_WIRE_CM_FIELDS_H

#include <stdint.h>

/* Position from the beginning of the message; bit 0 is the most significant one of a byte. */
struct av_cm_field {
	uint8_t byte, bit;
	uint16_t bits;
	uint16_t member; /* offset in struct av_cm_message */
	uint8_t member_bytes;
	uint8_t shift; /* bits of the member below these, which are elsewhere */
};

struct av_cm_kind {
	const char *name;
	const struct av_cm_field *field; /* without the private data */
	uint8_t fields;
	uint8_t private_at; /* byte from which on all is private data */
};

/* NULL: unknown attribute. */
const struct av_cm_kind *av_cm_find_kind(uint16_t attribute);

#endif
