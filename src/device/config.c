/* SPDX-License-Identifier: MIT */
/* The parser of ANYVERBS_DEVICES. keys[] has the keys; the rest cuts text at separators. */
#include "device/device.h"

#include <stdarg.h>
#include <stdio.h>

#include "observe/freedom.h"
#include "wire/packet.h"

#define LID_MAX	  49151 /* 0xBFFF, the last unicast LID */
#define QUOTE_MAX 64	/* bytes of the setting that a complaint quotes */

struct key {
	const char *name;
	bool (*set)(struct av_device *dev, struct av_word value, const struct key *key);
	const char *wanted; /* what a value must be, for complaints; NULL: a number */
	unsigned int max;   /* the largest number; the smallest is 1 */
	size_t offset;	    /* of its int in struct av_device */
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

/* Cut off *rest before @separator. *rest becomes the text behind it, NULL after the last part. */
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

static bool read_number(struct av_word value, const struct key *key, unsigned int *number)
{
	uint64_t n;

	if (!av_word_number(value, 10, &n) || n < 1 || n > key->max)
		return false;
	*number = (unsigned int)n;
	return true;
}

static bool set_number(struct av_device *dev, struct av_word value, const struct key *key)
{
	return read_number(value, key, (unsigned int *)((char *)dev + key->offset));
}

static bool set_lid(struct av_device *dev, struct av_word value, const struct key *key)
{
	unsigned int lid;

	if (!read_number(value, key, &lid))
		return false;
	dev->port.lid = (uint16_t)lid;
	return true;
}

static bool set_link(struct av_device *dev, struct av_word value, const struct key *key)
{
	if (av_word_is(value, "ethernet"))
		dev->port.link_layer = IBV_LINK_LAYER_ETHERNET;
	else if (av_word_is(value, "infiniband"))
		dev->port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	else
		return false;
	return true;
}

/* The model that has the word as a profile, or after "as=". Return: NULL: none has */
static const struct av_model *find_model(struct av_word word, size_t member)
{
	const struct av_model *model;
	const char *name;

	for (unsigned int i = 0; (model = av_model_at(i)); i++) {
		memcpy(&name, (const char *)model + member, sizeof(name));
		if (name && av_word_is(word, name))
			return model;
	}
	return NULL;
}

static bool set_as(struct av_device *dev, struct av_word value, const struct key *key)
{
	dev->as = find_model(value, offsetof(struct av_model, name));
	if (dev->as)
		dev->model = dev->as;
	return dev->as;
}

static bool set_gid_rows(struct av_device *dev, struct av_word value, const struct key *key)
{
	dev->gids_paired = av_word_is(value, "mlx5");
	return dev->gids_paired || av_word_is(value, "single");
}

static bool set_mtu(struct av_device *dev, struct av_word value, const struct key *key)
{
	uint64_t bytes;

	if (!av_word_number(value, 10, &bytes))
		return false;
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		if (av_mtu_bytes(mtu) != bytes)
			continue;
		dev->port.max_mtu = mtu;
		dev->mtu_follows = false;
		return true;
	}
	return false;
}

static bool set_guid(struct av_device *dev, struct av_word value, const struct key *key)
{
	uint64_t guid;

	if (value.len != 16 || !av_word_number(value, 16, &guid) || !guid)
		return false;
	dev->guid = guid;
	return true;
}

static bool set_strict(struct av_device *dev, struct av_word value, const struct key *key)
{
	enum av_freedom which = av_freedom_by_name(value);

	if (which != AV_FREEDOM_N)
		dev->strict |= AV_FREEDOM_BIT(which);
	return which != AV_FREEDOM_N;
}

static bool set_seed(struct av_device *dev, struct av_word value, const struct key *key)
{
	uint64_t seed;

	if (!av_word_number(value, 10, &seed) || !seed)
		return false;
	dev->seed = seed;
	return true;
}

#define GID_ROWS "gid_rows"
#define LIMIT(name, max)                                                            \
	{                                                                           \
#name, set_number, NULL, max, offsetof(struct av_device, attr.name) \
	}

static const struct key keys[] = {
	{"link", set_link, "ethernet or infiniband", 0, 0},
	{"mtu", set_mtu, "256, 512, 1024, 2048 or 4096", 0, 0},
	{"guid", set_guid, "16 hexadecimal digits, not all 0", 0, 0},
	{"as", set_as, "mlx5, rxe, siw, irdma, efa, bnxt, hns or erdma", 0, 0},
	{GID_ROWS, set_gid_rows, "single or mlx5", 0, 0},
	{"lid", set_lid, NULL, LID_MAX, 0},
	{"strict", set_strict, "the name of a freedom: 'anyverbs help strict' lists them", 0, 0},
	{"seed", set_seed, "1 to 18446744073709551615", 0, 0},
	{"gids", set_number, NULL, AV_GID_MAX, offsetof(struct av_device, port.gid_tbl_len)},
	LIMIT(max_qp, AV_MAX_QP),
	LIMIT(max_qp_wr, AV_MAX_QP_WR),
	LIMIT(max_sge, AV_MAX_SGE),
	LIMIT(max_cq, AV_MAX_CQ),
	LIMIT(max_cqe, AV_MAX_CQE),
	LIMIT(max_mr, AV_MAX_MR),
	LIMIT(max_pd, AV_MAX_PD),
};

#undef LIMIT

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

static void unknown_key(struct av_config *config, const struct av_device *dev, struct av_word name)
{
	const char *nearest = av_word_nearest(name, key_name);

	if (nearest)
		record_config_error(config, "%s: unknown key '%.*s'; did you mean '%s'?",
				    dev->ibv.name, quote(name), name.text, nearest);
	else
		record_config_error(config, "%s: unknown key '%.*s'", dev->ibv.name, quote(name),
				    name.text);
}

/* Apply one "KEY=VALUE" to @dev. @seen: a bit per row of keys[] that is already set. */
static void parse_setting(struct av_config *config, struct av_device *dev, unsigned int *seen,
			  struct av_word setting)
{
	struct av_word value = setting, name = split_config_word(&value, '=');
	size_t row = find_config_key(name);

	if (!value.text && av_word_is(name, "strict")) {
		dev->strict |= AV_FREEDOM_ALL;
	} else if (!value.text) {
		record_config_error(config, "%s: '%.*s' is not KEY=VALUE", dev->ibv.name,
				    quote(setting), setting.text);
	} else if (row == AV_ARRAY_SIZE(keys)) {
		unknown_key(config, dev, name);
	} else if (*seen & 1u << row) {
		record_config_error(config, "%s: %s is set twice; the first value is used",
				    dev->ibv.name, keys[row].name);
	} else if (keys[row].set(dev, value, &keys[row])) {
		*seen |= 1u << row;
	} else if (keys[row].wanted) {
		record_config_error(config, "%s: %s '%.*s' is not %s", dev->ibv.name,
				    keys[row].name, quote(value), value.text, keys[row].wanted);
	} else {
		record_config_error(config, "%s: %s '%.*s' is not 1 to %u", dev->ibv.name,
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
		if (av_word_is(name, config->device[i].ibv.name))
			return true;
	return false;
}

/* Has a device that LID, or that GUID? 0: of neither kind */
static bool is_address_taken(const struct av_config *config, unsigned int lid, uint64_t guid)
{
	for (unsigned int i = 0; i < config->device_count; i++)
		if ((lid && config->device[i].port.lid == lid) ||
		    (guid && config->device[i].guid == guid))
			return true;
	return false;
}

/* Rules between settings. They hold in any order of the settings. */
static void check_addresses(struct av_config *config, struct av_device *dev)
{
	if (dev->port.lid && dev->port.link_layer != IBV_LINK_LAYER_INFINIBAND) {
		record_config_error(config, "%s: a lid needs link=infiniband", dev->ibv.name);
		dev->port.lid = 0;
	}
	if (is_address_taken(config, dev->port.lid, 0)) {
		record_config_error(config, "%s: lid %u belongs to another device", dev->ibv.name,
				    dev->port.lid);
		dev->port.lid = 0;
	}
	if (is_address_taken(config, 0, dev->guid)) {
		record_config_error(config, "%s: guid %016llx belongs to another device",
				    dev->ibv.name, (unsigned long long)dev->guid);
		dev->guid = 0;
	}
}

/* Add a device, named, to the list if there is room. */
static void add_device(struct av_config *config, struct av_device *dev)
{
	if (config->device_count == AV_DEVICE_MAX) {
		record_config_error(config, "'%s' is left out: at most %d devices are possible",
				    dev->ibv.name, AV_DEVICE_MAX);
		return;
	}
	check_addresses(config, dev);
	config->device[config->device_count++] = *dev;
}

/* Set the name, and apply all of @settings. */
static void parse_settings(struct av_config *config, struct av_device *dev, struct av_word name,
			   struct av_word settings)
{
	const struct av_word gid_rows = {GID_ROWS, strlen(GID_ROWS)};
	unsigned int seen = 0;

	memcpy(dev->ibv.name, name.text, name.len);
	dev->ibv.name[name.len] = '\0';
	while (settings.text)
		parse_setting(config, dev, &seen, split_config_word(&settings, ':'));
	if (dev->as && !(seen & 1u << find_config_key(gid_rows)))
		dev->gids_paired = dev->as->gids_paired;
}

static void parse_device(struct av_config *config, struct av_word name, struct av_word settings)
{
	struct av_device dev = av_device_default;

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
	parse_settings(config, &dev, name, settings);
	add_device(config, &dev);
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
static void name_device(const struct av_config *config, struct av_device *dev)
{
	unsigned int number = 0;

	do
		snprintf(dev->ibv.name, sizeof(dev->ibv.name), "%s%u", dev->model->prefix,
			 number++);
	while (name_is_taken(config, (struct av_word){dev->ibv.name, strlen(dev->ibv.name)}));
}

static void parse_profile(struct av_config *config, const struct av_model *model,
			  struct av_word profile, struct av_word settings)
{
	unsigned int count = parse_count(config, profile, &settings);
	struct av_device all = av_device_default;

	all.model = model;
	all.gids_paired = model->gids_paired;
	parse_settings(config, &all, profile, settings);
	for (unsigned int i = 0; i < count; i++) {
		struct av_device dev = all;

		name_device(config, &dev);
		add_device(config, &dev);
	}
}

static void parse_item(struct av_config *config, struct av_word text)
{
	struct av_word name = split_config_word(&text, ':');
	const struct av_model *model = find_model(name, offsetof(struct av_model, profile));

	if (model)
		parse_profile(config, model, name, text);
	else
		parse_device(config, name, text);
}

/*
 * The names of freedoms are separated as devices are. Does @item add one to those of the devices
 * from @first on?
 */
static bool adds_freedom(struct av_config *config, unsigned int first, struct av_word item)
{
	enum av_freedom which = av_freedom_by_name(item);

	if (which == AV_FREEDOM_N || first == config->device_count || !config->device[first].strict)
		return false;
	for (; first < config->device_count; first++)
		config->device[first].strict |= AV_FREEDOM_BIT(which);
	return true;
}

/* Position in the list + 1, or the next free number; of strict devices, from the last one on. */
static void assign_lids(struct av_config *config)
{
	for (unsigned int i = 0; i < config->device_count; i++) {
		struct av_device *dev = &config->device[i];
		bool high = dev->strict & AV_FREEDOM_BIT(AV_FREEDOM_LIMITS);
		unsigned int lid = high ? LID_MAX - i : i + 1;

		if (dev->port.link_layer != IBV_LINK_LAYER_INFINIBAND || dev->port.lid)
			continue;
		while (is_address_taken(config, lid, 0))
			lid += high ? -1u : 1;
		dev->port.lid = lid;
	}
}

void av_config_parse(const char *text, struct av_config *config)
{
	struct av_word rest = {text, text ? strlen(text) : 0}, item;
	unsigned int first = 0, count;

	_Static_assert(AV_ARRAY_SIZE(keys) <= 32, "a bit for each key");
	memset(config, 0, sizeof(*config));
	if (!rest.len)
		rest.text = NULL;
	while (rest.text) {
		item = split_config_word(&rest, ',');
		count = config->device_count;
		if (adds_freedom(config, first, item))
			continue;
		first = count;
		parse_item(config, item);
	}
	if (!config->device_count)
		config->device[config->device_count++] = av_device_default;
	assign_lids(config);
}
