/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

#define PREFIX "ANYVERBS_"

#define MOST_VALUES 3

/*
 * Each is described in anyverbs(7) or anyverbs-run(1). Without values here: any text, or the
 * library says what is wrong with it.
 */
static const struct setting {
	const char *name, *values[MOST_VALUES];
} settings[] = {
	{"ADOPT", {"auto", "always", "never"}},
	{"AS_NOTIFY", {NULL}},
	{"CAPTURE", {NULL}},
	{"CHECK", {NULL}},
	{"DEVICES", {NULL}},
	{"DIR", {NULL}},
	{"EXPLAIN", {"0", "1"}},
	{"FAULTS", {NULL}},
	{"FORK", {"dontfork"}},
	{"LIBRARY", {NULL}},
	{"LOG", {NULL}},
	{"MEMLOCK", {"real"}},
	{"SHARED_HEAP", {"0", "1"}},
	{"TRANSPORT", {"wire", "direct"}},
	{"WATCH", {"odp"}},
};

static const char *name_of(size_t i)
{
	return i < AV_ARRAY_SIZE(settings) ? settings[i].name : NULL;
}

static const struct setting *find(struct av_word name)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(settings); i++)
		if (av_word_is(name, settings[i].name))
			return &settings[i];
	return NULL;
}

static void check_name(struct av_word name)
{
	const char *nearest = av_word_nearest(name, name_of);

	if (nearest)
		av_tool_complain("the variable " PREFIX "%.*s is not read; did you mean " PREFIX
				 "%s?",
				 (int)name.len, name.text, nearest);
}

/* "auto, always or never" */
static void list_values(const struct setting *s, char *to, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < MOST_VALUES && s->values[i] && n < size; i++) {
		bool last = i + 1 == MOST_VALUES || !s->values[i + 1];
		const char *between = last ? " or " : ", ";

		n += (size_t)snprintf(to + n, size - n, "%s%s", i ? between : "", s->values[i]);
	}
}

/* An empty value is none. */
static void check_value(const struct setting *s, const char *value)
{
	char values[64];

	if (!*value || !s->values[0])
		return;
	for (size_t i = 0; i < MOST_VALUES && s->values[i]; i++)
		if (!strcmp(value, s->values[i]))
			return;
	list_values(s, values, sizeof(values));
	av_tool_complain(PREFIX "%s: '%s' is not %s", s->name, value, values);
}

void av_settings_check(void)
{
	for (char **variable = environ; *variable; variable++) {
		struct av_word name = {*variable + strlen(PREFIX), 0};
		const struct setting *setting;

		if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0)
			continue;
		name.len = strcspn(name.text, "=");
		setting = find(name);
		if (!setting)
			check_name(name);
		else if (name.text[name.len])
			check_value(setting, name.text + name.len + 1);
	}
}
