/* SPDX-License-Identifier: MIT */
/*
 * The parser of ANYVERBS_DEVICES. keys[] has a row for each key; the rest cuts text at separators.
 */
#include "device/device.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/text.h"
#include "wire/packet.h"

#define DEFAULT_NAME "any0"
#define LID_MAX	     49151 /* 0xBFFF, the last unicast LID */
#define QUOTE_MAX    64	   /* bytes of the setting that a complaint quotes */

struct key {
	const char *name;
	bool (*set)(struct av_device_spec *spec, struct av_word value, const struct key *key);
	const char *wanted; /* what a value must be, for complaints; NULL: a number */
	size_t offset;	    /* for numbers: the unsigned int in struct av_device_spec, */
	unsigned int max;   /* and its largest value; the smallest is 1 */
};

AV_PRINTF(2, 3)
static void record_config_error(struct av_config *config, const char *fmt, ...)
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
static int quote(struct av_word w)
{
	return av_word_quote(w, QUOTE_MAX);
}

/*
 * Cut off the part of *rest before @separator. *rest becomes the text behind it;
 * its text is NULL after the last part.
 */
static struct av_word split_config_word(struct av_word *rest, char separator)
{
	const char *end = memchr(rest->text, separator, rest->len);
	struct av_word part = *rest;

	if (!end) {
		*rest = (struct av_word){NULL, 0};
		return part;
	}
	part.len = (size_t)(end - part.text);
	rest->text = end + 1;
	rest->len -= part.len + 1;
	return part;
}

static bool set_number(struct av_device_spec *spec, struct av_word value, const struct key *key)
{
	uint64_t number;

	if (!av_word_number(value, 10, &number) || number < 1 || number > key->max)
		return false;
	*(unsigned int *)((char *)spec + key->offset) = (unsigned int)number;
	return true;
}

static bool set_link(struct av_device_spec *spec, struct av_word value, const struct key *key)
{
	if (av_word_is(value, "ethernet"))
		spec->link_layer = IBV_LINK_LAYER_ETHERNET;
	else if (av_word_is(value, "infiniband"))
		spec->link_layer = IBV_LINK_LAYER_INFINIBAND;
	else
		return false;
	return true;
}

static bool set_gid_rows(struct av_device_spec *spec, struct av_word value, const struct key *key)
{
	spec->gids_paired = av_word_is(value, "mlx5");
	return spec->gids_paired || av_word_is(value, "single");
}

static bool set_mtu(struct av_device_spec *spec, struct av_word value, const struct key *key)
{
	uint64_t bytes;

	if (!av_word_number(value, 10, &bytes))
		return false;
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		if (av_mtu_bytes(mtu) != bytes)
			continue;
		spec->mtu = mtu;
		spec->mtu_follows = false;
		return true;
	}
	return false;
}

static bool set_guid(struct av_device_spec *spec, struct av_word value, const struct key *key)
{
	uint64_t guid;

	if (value.len != 16 || !av_word_number(value, 16, &guid) || !guid)
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
	{"gid_rows", set_gid_rows, "single or mlx5", 0, 0},
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
	.model = &av_model_own,
	.link_layer = IBV_LINK_LAYER_ETHERNET,
	.mtu = IBV_MTU_4096,
	.mtu_follows = true,
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
static size_t find_config_key(struct av_word name)
{
	size_t i;

	for (i = 0; i < AV_ARRAY_SIZE(keys); i++)
		if (av_word_is(name, keys[i].name))
			break;
	return i;
}

static const char *key_name(size_t i)
{
	return i < AV_ARRAY_SIZE(keys) ? keys[i].name : NULL;
}

static void unknown_key(struct av_config *config, const struct av_device_spec *spec,
			struct av_word name)
{
	const char *nearest = av_word_nearest(name, key_name);

	if (nearest)
		record_config_error(config, "%s: unknown key '%.*s'; did you mean '%s'?",
				    spec->name, quote(name), name.text, nearest);
	else
		record_config_error(config, "%s: unknown key '%.*s'", spec->name, quote(name),
				    name.text);
}

/* Apply one "KEY=VALUE" to @spec. @seen: a bit per row of keys[] that is already set. */
static void parse_setting(struct av_config *config, struct av_device_spec *spec, unsigned int *seen,
			  struct av_word setting)
{
	struct av_word value = setting, name = split_config_word(&value, '=');
	size_t row = find_config_key(name);

	if (!value.text) {
		record_config_error(config, "%s: '%.*s' is not KEY=VALUE", spec->name,
				    quote(setting), setting.text);
	} else if (row == AV_ARRAY_SIZE(keys)) {
		unknown_key(config, spec, name);
	} else if (*seen & 1u << row) {
		record_config_error(config, "%s: %s is set twice; the first value is used",
				    spec->name, keys[row].name);
	} else if (keys[row].set(spec, value, &keys[row])) {
		*seen |= 1u << row;
	} else if (keys[row].wanted) {
		record_config_error(config, "%s: %s '%.*s' is not %s", spec->name, keys[row].name,
				    quote(value), value.text, keys[row].wanted);
	} else {
		record_config_error(config, "%s: %s '%.*s' is not 1 to %u", spec->name,
				    keys[row].name, quote(value), value.text, keys[row].max);
	}
}

static bool name_is_usable(struct av_word name)
{
	/* Not isalnum(): names must not depend on the locale of the program. */
	static const char usable[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

	return name.len && name.len < IBV_SYSFS_NAME_MAX && strspn(name.text, usable) >= name.len &&
	       !av_word_is(name, ".") && !av_word_is(name, "..");
}

static bool name_is_taken(const struct av_config *config, struct av_word name)
{
	for (unsigned int i = 0; i < config->device_count; i++)
		if (av_word_is(name, config->device[i].name))
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
		record_config_error(config, "%s: a lid needs link=infiniband", spec->name);
		spec->lid = 0;
	}
	if (spec->lid && lid_is_taken(config, spec->lid)) {
		record_config_error(config, "%s: lid %u belongs to another device", spec->name,
				    spec->lid);
		spec->lid = 0;
	}
	if (spec->guid && guid_is_taken(config, spec->guid)) {
		record_config_error(config, "%s: guid %016llx belongs to another device",
				    spec->name, (unsigned long long)spec->guid);
		spec->guid = 0;
	}
}

/* Add a device, named, to the list if there is room. */
static void add_device(struct av_config *config, struct av_device_spec *spec)
{
	if (config->device_count == AV_DEVICE_MAX) {
		record_config_error(config, "'%s' is left out: at most %d devices are possible",
				    spec->name, AV_DEVICE_MAX);
		return;
	}
	check_addresses(config, spec);
	config->device[config->device_count++] = *spec;
}

/* Set the name, and apply all of @settings. */
static void parse_settings(struct av_config *config, struct av_device_spec *spec,
			   struct av_word name, struct av_word settings)
{
	unsigned int seen = 0;

	memcpy(spec->name, name.text, name.len);
	spec->name[name.len] = '\0';
	while (settings.text)
		parse_setting(config, spec, &seen, split_config_word(&settings, ':'));
}

static void parse_device(struct av_config *config, struct av_word name, struct av_word settings)
{
	struct av_device_spec spec = default_spec;

	if (!name_is_usable(name)) {
		record_config_error(config,
				    "'%.*s' is not a device name (1 to 63 of A-Z a-z 0-9 _ . -)",
				    quote(name), name.text);
		return;
	}
	if (name_is_taken(config, name)) {
		record_config_error(config, "there are two devices '%.*s'; the first one is used",
				    quote(name), name.text);
		return;
	}
	parse_settings(config, &spec, name, settings);
	add_device(config, &spec);
}

/* How many devices of a profile: its first part, which is cut off if it is a number at all. */
static unsigned int parse_count(struct av_config *config, struct av_word profile,
				struct av_word *settings)
{
	struct av_word rest = *settings, first;
	uint64_t count;

	if (!settings->text)
		return 1;
	first = split_config_word(&rest, ':');
	if (memchr(first.text, '=', first.len))
		return 1;
	*settings = rest;
	if (av_word_number(first, 10, &count) && count >= 1 && count <= AV_DEVICE_MAX)
		return (unsigned int)count;
	record_config_error(config, "%.*s: '%.*s' is not 1 to %d devices", quote(profile),
			    profile.text, quote(first), first.text, AV_DEVICE_MAX);
	return 1;
}

/* The first name of the model that no device has. */
static void name_device(const struct av_config *config, struct av_device_spec *spec)
{
	unsigned int number = 0;

	do
		snprintf(spec->name, sizeof(spec->name), "%s%u", spec->model->prefix, number++);
	while (name_is_taken(config, (struct av_word){spec->name, strlen(spec->name)}));
}

static void parse_profile(struct av_config *config, const struct av_model *model,
			  struct av_word profile, struct av_word settings)
{
	unsigned int count = parse_count(config, profile, &settings);
	struct av_device_spec all = default_spec;

	all.model = model;
	all.gids_paired = model->gids_paired;
	parse_settings(config, &all, profile, settings);
	for (unsigned int i = 0; i < count; i++) {
		struct av_device_spec spec = all;

		name_device(config, &spec);
		add_device(config, &spec);
	}
}

static void parse_item(struct av_config *config, struct av_word text)
{
	struct av_word name = split_config_word(&text, ':');
	const struct av_model *model = av_model_find(name);

	if (model)
		parse_profile(config, model, name, text);
	else
		parse_device(config, name, text);
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
	struct av_word rest = {text, text ? strlen(text) : 0};

	_Static_assert(AV_ARRAY_SIZE(keys) <= 32, "a bit for each key");
	memset(config, 0, sizeof(*config));
	if (!rest.len)
		rest.text = NULL;
	while (rest.text)
		parse_item(config, split_config_word(&rest, ','));
	if (!config->device_count)
		config->device[config->device_count++] = default_spec;
	assign_lids(config);
}
