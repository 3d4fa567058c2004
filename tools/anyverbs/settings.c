/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <string.h>
#include <unistd.h>

#include "command.h"

#define PREFIX "ANYVERBS_"

/* Each is described in anyverbs(7) or anyverbs-run(1). */
static const char *const settings[] = {
	"ADOPT", "AS_NOTIFY", "CAPTURE", "CHECK",   "DEVICES",	   "DIR",	"EXPLAIN", "FAULTS",
	"FORK",	 "LIBRARY",   "LOG",	 "MEMLOCK", "SHARED_HEAP", "TRANSPORT", "WATCH",
};

static const char *setting(size_t i)
{
	return i < AV_ARRAY_SIZE(settings) ? settings[i] : NULL;
}

static bool is_ours(struct av_word name)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(settings); i++)
		if (av_word_is(name, settings[i]))
			return true;
	return false;
}

void av_settings_check(void)
{
	for (char **variable = environ; *variable; variable++) {
		struct av_word name = {*variable + strlen(PREFIX), 0};
		const char *nearest;

		if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0)
			continue;
		name.len = strcspn(name.text, "=");
		nearest = is_ours(name) ? NULL : av_word_nearest(name, setting);
		if (nearest)
			av_tool_complain("the variable " PREFIX
					 "%.*s is not read; did you mean " PREFIX "%s?",
					 (int)name.len, name.text, nearest);
	}
}
