/* SPDX-License-Identifier: MIT */
#include "wire/cm_message.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/cm_fields.h"

#define HEADER_BYTES  24
#define MESSAGE_BYTES (AV_MAD_BYTES - HEADER_BYTES)

/* The header of a management datagram. */
#define BASE_VERSION   1
#define CLASS_CM       0x07
#define CLASS_VERSION  2
#define METHOD_SEND    0x03
#define TRANSACTION_AT 8
#define ATTRIBUTE_AT   16
#define ATTR_MOD_AT    20

size_t av_cm_private_bytes(uint16_t attribute)
{
	const struct av_cm_kind *kind = av_cm_find_kind(attribute);

	return kind ? (size_t)MESSAGE_BYTES - kind->private_at : 0;
}

const char *av_cm_attribute_name(uint16_t attribute)
{
	const struct av_cm_kind *kind = av_cm_find_kind(attribute);

	return kind ? kind->name : NULL;
}

static bool is_array(const struct av_cm_field *f)
{
	return f->bits > 64;
}

static uint64_t load(const void *member, size_t bytes)
{
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch (bytes) {
	case 1:
		memcpy(&u8, member, 1);
		return u8;
	case 2:
		memcpy(&u16, member, 2);
		return u16;
	case 4:
		memcpy(&u32, member, 4);
		return u32;
	default:
		memcpy(&u64, member, 8);
		return u64;
	}
}

static void store(void *member, size_t bytes, uint64_t v)
{
	uint8_t u8 = (uint8_t)v;
	uint16_t u16 = (uint16_t)v;
	uint32_t u32 = (uint32_t)v;

	switch (bytes) {
	case 1:
		memcpy(member, &u8, 1);
		break;
	case 2:
		memcpy(member, &u16, 2);
		break;
	case 4:
		memcpy(member, &u32, 4);
		break;
	default:
		memcpy(member, &v, 8);
		break;
	}
}

/* The bits are 0 before. */
static void put_bits(uint8_t *to, const struct av_cm_field *f, uint64_t v)
{
	for (unsigned int i = 0; i < f->bits; i++) {
		unsigned int at = f->bit + i;
		uint64_t bit = v >> (f->bits - 1 - i) & 1;

		to[f->byte + at / 8] |= (uint8_t)(bit << (7 - at % 8));
	}
}

static uint64_t get_bits(const uint8_t *from, const struct av_cm_field *f)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < f->bits; i++) {
		unsigned int at = f->bit + i;

		v = v << 1 | (from[f->byte + at / 8] >> (7 - at % 8) & 1);
	}
	return v;
}

static void put_field(const struct av_cm_message *m, const struct av_cm_field *f, uint8_t *to)
{
	const uint8_t *member = (const uint8_t *)m + f->member;

	if (is_array(f))
		memcpy(to + f->byte, member, f->member_bytes);
	else
		put_bits(to, f, load(member, f->member_bytes) >> f->shift);
}

static void get_field(struct av_cm_message *m, const struct av_cm_field *f, const uint8_t *from)
{
	uint8_t *member = (uint8_t *)m + f->member;

	if (is_array(f))
		memcpy(member, from + f->byte, f->member_bytes);
	else
		store(member, f->member_bytes,
		      load(member, f->member_bytes) | get_bits(from, f) << f->shift);
}

bool av_cm_put(const struct av_cm_message *m, uint8_t to[AV_MAD_BYTES])
{
	const struct av_cm_kind *kind = av_cm_find_kind(m->attribute);
	uint8_t *message = to + HEADER_BYTES;

	if (!kind)
		return false;
	memset(to, 0, AV_MAD_BYTES);
	to[0] = BASE_VERSION;
	to[1] = CLASS_CM;
	to[2] = CLASS_VERSION;
	to[3] = METHOD_SEND;
	av_put64(to + TRANSACTION_AT, m->transaction);
	av_put16(to + ATTRIBUTE_AT, m->attribute);
	av_put32(to + ATTR_MOD_AT, m->attr_mod);
	for (size_t i = 0; i < kind->fields; i++)
		put_field(m, &kind->field[i], message);
	memcpy(message + kind->private_at, m->private_data,
	       (size_t)MESSAGE_BYTES - kind->private_at);
	return true;
}

bool av_cm_get(struct av_cm_message *m, const uint8_t *from, size_t bytes)
{
	const uint8_t *message = from + HEADER_BYTES;
	const struct av_cm_kind *kind;

	if (bytes != AV_MAD_BYTES || from[0] != BASE_VERSION || from[1] != CLASS_CM ||
	    from[2] != CLASS_VERSION || from[3] != METHOD_SEND)
		return false;
	kind = av_cm_find_kind(av_get16(from + ATTRIBUTE_AT));
	if (!kind)
		return false;
	memset(m, 0, sizeof(*m));
	m->transaction = av_get64(from + TRANSACTION_AT);
	m->attribute = av_get16(from + ATTRIBUTE_AT);
	m->attr_mod = av_get32(from + ATTR_MOD_AT);
	for (size_t i = 0; i < kind->fields; i++)
		get_field(m, &kind->field[i], message);
	if (m->info_bytes > AV_CM_INFO_BYTES)
		m->info_bytes = AV_CM_INFO_BYTES;
	memcpy(m->private_data, message + kind->private_at,
	       (size_t)MESSAGE_BYTES - kind->private_at);
	return true;
}
