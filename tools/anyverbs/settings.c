/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

#define PREFIX "ANYVERBS_"

#define MOST_VALUES 4

/*
 * Each is described in anyverbs(7) or anyverbs-run(1). Without values here: any text, or the
 * library says what is wrong with it.
 */
static const struct setting {
	const char *name, *values[MOST_VALUES];
	char end;   /* of the word that is looked at, if something follows; 0: nothing does */
	bool again; /* another word follows */
} settings[] = {
	{"AS_NOTIFY", {"futex", "umwait", "mwaitx", "loop"}, 0, false},
	{"CAPTURE", {NULL}, 0, false},
	{"CHECK", {"0", "1", "json", "fail"}, ',', true},
	{"DEVICES", {NULL}, 0, false},
	{"DIR", {NULL}, 0, false},
	{"EXPLAIN", {"0", "1"}, 0, false},
	{"FAULTS", {NULL}, 0, false},
	{"FORK", {"dontfork"}, 0, false},
	{"LIBRARY", {NULL}, 0, false},
	{"LOG", {"off", "warn", "info", "debug"}, ':', false},
	{"MEMLOCK", {"real"}, 0, false},
	{"SHARED_HEAP", {"open", "always", "never"}, 0, false},
	{"TRANSPORT", {"wire", "direct", "plain", "sleepy"}, ',', true},
	{"WATCH", {"odp"}, 0, false},
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

static const struct setting *asked;

static const char *value_of(size_t i)
{
	return i < MOST_VALUES ? asked->values[i] : NULL;
}

static void check_word(const struct setting *s, struct av_word word)
{
	const char *nearest;
	char values[64];

	for (size_t i = 0; i < MOST_VALUES && s->values[i]; i++)
		if (av_word_is(word, s->values[i]))
			return;
	asked = s;
	nearest = av_word_nearest(word, value_of);
	list_values(s, values, sizeof(values));
	av_tool_complain(PREFIX "%s: '%.*s' is not %s%s%s%s", s->name, (int)word.len, word.text,
			 values, nearest ? "; did you mean '" : "", nearest ? nearest : "",
			 nearest ? "'?" : "");
}

/* An empty value is none. */
static void check_value(const struct setting *s, const char *value)
{
	const char ends[] = {s->end, '\0'};

	if (!strcmp(s->name, "DIR") && *value && *value != '/')
		av_tool_complain(PREFIX "DIR: '%s' is not an absolute path", value);
	while (*value && s->values[0]) {
		size_t len = strcspn(value, ends);

		check_word(s, (struct av_word){value, len});
		value += len + (value[len] != '\0');
		if (!s->again)
			return;
	}
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
