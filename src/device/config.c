/* SPDX-License-Identifier: MIT */
/*
 * The parser of ANYVERBS_DEVICES. keys[] has a row for each key; the rest cuts text at separators.
 */
#include "device/config.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"

#define DEFAULT_NAME "any0"
#define LID_MAX	     49151 /* 0xBFFF, the last unicast LID */
#define QUOTE_MAX    64	   /* bytes of the setting that a complaint quotes */

/* A piece of the setting, not NUL terminated. text NULL: there is none. */
struct span {
	const char *text;
	size_t len;
};

struct key {
	const char *name;
	bool (*set)(struct av_device_spec *spec, struct span value, const struct key *key);
	const char *wanted; /* what a value must be, for complaints; NULL: a number */
	size_t offset;	    /* for numbers: the unsigned int in struct av_device_spec, */
	unsigned int max;   /* and its largest value; the smallest is 1 */
};

AV_PRINTF(2, 3)
static void complain(struct av_config *config, const char *fmt, ...)
{
	unsigned int row = config->complaint_count++;
	va_list ap;

	if (row >= AV_COMPLAINT_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(config->complaint[row], AV_COMPLAINT_BYTES, fmt, ap);
	va_end(ap);
}

/* How many bytes of @s a complaint quotes, for printf's "%.*s". */
static int quote_len(struct span s)
{
	return s.len < QUOTE_MAX ? (int)s.len : QUOTE_MAX;
}

static bool span_is(struct span s, const char *word)
{
	return strlen(word) == s.len && !memcmp(s.text, word, s.len);
}

/*
 * Cut off the part of *rest before @separator. *rest becomes the text behind it, or no text after
 * the last part.
 */
static struct span cut(struct span *rest, char separator)
{
	const char *end = memchr(rest->text, separator, rest->len);
	struct span part = *rest;

	if (!end) {
		*rest = (struct span){NULL, 0};
		return part;
	}
	part.len = (size_t)(end - part.text);
	rest->text = end + 1;
	rest->len -= part.len + 1;
	return part;
}

/*
 * Decimal digits only: no sign, no space. Saturates, so that a number of any length is just too
 * large.
 */
static bool parse_number(struct span s, unsigned int *value)
{
	unsigned int v = 0, digit;

	if (!s.len)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.text[i] < '0' || s.text[i] > '9')
			return false;
		digit = (unsigned int)(s.text[i] - '0');
		v = v > (UINT32_MAX - digit) / 10 ? UINT32_MAX : v * 10 + digit;
	}
	*value = v;
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool set_number(struct av_device_spec *spec, struct span value, const struct key *key)
{
	unsigned int number;

	if (!parse_number(value, &number) || number < 1 || number > key->max)
		return false;
	memcpy((char *)spec + key->offset, &number, sizeof(number));
	return true;
}

static bool set_link(struct av_device_spec *spec, struct span value, const struct key *key)
{
	if (span_is(value, "ethernet"))
		spec->link_layer = IBV_LINK_LAYER_ETHERNET;
	else if (span_is(value, "infiniband"))
		spec->link_layer = IBV_LINK_LAYER_INFINIBAND;
	else
		return false;
	return true;
}

static bool set_mtu(struct av_device_spec *spec, struct span value, const struct key *key)
{
	static const struct {
		const char *bytes;
		enum ibv_mtu mtu;
	} mtus[] = {
		{"256", IBV_MTU_256},	{"512", IBV_MTU_512},	{"1024", IBV_MTU_1024},
		{"2048", IBV_MTU_2048}, {"4096", IBV_MTU_4096},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(mtus); i++) {
		if (!span_is(value, mtus[i].bytes))
			continue;
		spec->mtu = mtus[i].mtu;
		return true;
	}
	return false;
}

static bool set_guid(struct av_device_spec *spec, struct span value, const struct key *key)
{
	uint64_t guid = 0;

	if (value.len != 16)
		return false;
	for (size_t i = 0; i < value.len; i++) {
		int digit = hex_digit(value.text[i]);

		if (digit < 0)
			return false;
		guid = guid << 4 | (uint64_t)digit;
	}
	if (!guid)
		return false;
	spec->guid = guid;
	return true;
}

#define NUMBER(name, max)                                                           \
	{                                                                           \
#name, set_number, NULL, offsetof(struct av_device_spec, name), max \
	}

static const struct key keys[] = {
	{"link", set_link, "ethernet or infiniband", 0, 0},
	{"mtu", set_mtu, "256, 512, 1024, 2048 or 4096", 0, 0},
	{"guid", set_guid, "16 hexadecimal digits, not all 0", 0, 0},
	NUMBER(lid, LID_MAX),
	NUMBER(gids, AV_GID_MAX),
	NUMBER(max_qp, AV_MAX_QP),
	NUMBER(max_qp_wr, AV_MAX_QP_WR),
	NUMBER(max_sge, AV_MAX_SGE),
	NUMBER(max_cq, AV_MAX_CQ),
	NUMBER(max_cqe, AV_MAX_CQE),
	NUMBER(max_mr, AV_MAX_MR),
	NUMBER(max_pd, AV_MAX_PD),
};

#undef NUMBER

static const struct av_device_spec default_spec = {
	.name = DEFAULT_NAME,
	.link_layer = IBV_LINK_LAYER_ETHERNET,
	.mtu = IBV_MTU_4096,
	.gids = AV_GID_MAX,
	.max_qp = AV_MAX_QP,
	.max_qp_wr = AV_MAX_QP_WR,
	.max_sge = AV_MAX_SGE,
	.max_cq = AV_MAX_CQ,
	.max_cqe = AV_MAX_CQE,
	.max_mr = AV_MAX_MR,
	.max_pd = AV_MAX_PD,
};

/* The row of that name, or AV_ARRAY_SIZE(keys). */
static size_t find_key(struct span name)
{
	size_t i;

	for (i = 0; i < AV_ARRAY_SIZE(keys); i++)
		if (span_is(name, keys[i].name))
			break;
	return i;
}

/*
 * Apply one "KEY=VALUE" to @spec. @seen: one bit per row of keys[] that this device has already
 * set.
 */
static void parse_setting(struct av_config *config, struct av_device_spec *spec, unsigned int *seen,
			  struct span setting)
{
	struct span value = setting, name = cut(&value, '=');
	size_t row = find_key(name);

	if (!value.text) {
		complain(config, "%s: '%.*s' is not KEY=VALUE", spec->name, quote_len(setting),
			 setting.text);
	} else if (row == AV_ARRAY_SIZE(keys)) {
		complain(config, "%s: unknown key '%.*s'", spec->name, quote_len(name), name.text);
	} else if (*seen & 1u << row) {
		complain(config, "%s: %s is set twice; the first value is used", spec->name,
			 keys[row].name);
	} else if (keys[row].set(spec, value, &keys[row])) {
		*seen |= 1u << row;
	} else if (keys[row].wanted) {
		complain(config, "%s: %s '%.*s' is not %s", spec->name, keys[row].name,
			 quote_len(value), value.text, keys[row].wanted);
	} else {
		complain(config, "%s: %s '%.*s' is not 1 to %u", spec->name, keys[row].name,
			 quote_len(value), value.text, keys[row].max);
	}
}

static bool name_is_usable(struct span name)
{
	if (!name.len || name.len >= IBV_SYSFS_NAME_MAX || span_is(name, ".") ||
	    span_is(name, ".."))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.text[i];

		/* Not isalnum(): names must not depend on the locale of the program. */
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_' || c == '.' || c == '-'))
			return false;
	}
	return true;
}

static bool name_is_taken(const struct av_config *config, struct span name)
{
	for (unsigned int i = 0; i < config->device_count; i++)
		if (span_is(name, config->device[i].name))
			return true;
	return false;
}

static bool lid_is_taken(const struct av_config *config, unsigned int lid)
{
	for (unsigned int i = 0; i < config->device_count; i++)
		if (config->device[i].lid == lid)
			return true;
	return false;
}

static bool guid_is_taken(const struct av_config *config, uint64_t guid)
{
	for (unsigned int i = 0; i < config->device_count; i++)
		if (config->device[i].guid == guid)
			return true;
	return false;
}

/* Rules between settings. They hold in any order of the settings. */
static void check_addresses(struct av_config *config, struct av_device_spec *spec)
{
	if (spec->lid && spec->link_layer != IBV_LINK_LAYER_INFINIBAND) {
		complain(config, "%s: a lid needs link=infiniband", spec->name);
		spec->lid = 0;
	}
	if (spec->lid && lid_is_taken(config, spec->lid)) {
		complain(config, "%s: lid %u belongs to another device", spec->name, spec->lid);
		spec->lid = 0;
	}
	if (spec->guid && guid_is_taken(config, spec->guid)) {
		complain(config, "%s: guid %016llx belongs to another device", spec->name,
			 (unsigned long long)spec->guid);
		spec->guid = 0;
	}
}

static void parse_device(struct av_config *config, struct span text)
{
	struct av_device_spec spec = default_spec;
	struct span name = cut(&text, ':');
	unsigned int seen = 0;

	if (!name_is_usable(name)) {
		complain(config, "'%.*s' is not a device name (1 to 63 of A-Z a-z 0-9 _ . -)",
			 quote_len(name), name.text);
		return;
	}
	if (name_is_taken(config, name)) {
		complain(config, "there are two devices '%.*s'; the first one is used",
			 quote_len(name), name.text);
		return;
	}
	if (config->device_count == AV_DEVICE_MAX) {
		complain(config, "'%.*s' is left out: at most %d devices are possible",
			 quote_len(name), name.text, AV_DEVICE_MAX);
		return;
	}
	memcpy(spec.name, name.text, name.len);
	spec.name[name.len] = '\0';
	while (text.text)
		parse_setting(config, &spec, &seen, cut(&text, ':'));
	check_addresses(config, &spec);
	config->device[config->device_count++] = spec;
}

/* Position in the list + 1, or the next free number. */
static void assign_lids(struct av_config *config)
{
	for (unsigned int i = 0; i < config->device_count; i++) {
		struct av_device_spec *spec = &config->device[i];
		unsigned int lid = i + 1;

		if (spec->link_layer != IBV_LINK_LAYER_INFINIBAND || spec->lid)
			continue;
		while (lid_is_taken(config, lid))
			lid++;
		spec->lid = lid;
	}
}

void av_config_parse(const char *text, struct av_config *config)
{
	struct span rest = {text, text ? strlen(text) : 0};

	_Static_assert(AV_ARRAY_SIZE(keys) <= 32, "a bit for each key");
	memset(config, 0, sizeof(*config));
	if (!rest.len)
		rest.text = NULL;
	while (rest.text)
		parse_device(config, cut(&rest, ','));
	if (!config->device_count)
		config->device[config->device_count++] = default_spec;
	assign_lids(config);
}
