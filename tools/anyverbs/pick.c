/* SPDX-License-Identifier: MIT */
#include "pick.h"

#include <string.h>

static const char *device_name(size_t i)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	return i < count ? list[i]->ibv.name : NULL;
}

struct av_device *av_pick_one(const char *name)
{
	struct av_device *dev = av_device_by_name(name);
	char hint[AV_HINT_BYTES];

	if (!dev)
		av_tool_complain(
			"there is no device '%s'%s", name,
			av_tool_hint(name, device_name, "'anyverbs devices' lists them", hint));
	return dev;
}

bool av_pick(struct av_pick *pick, const char *name)
{
	pick->list = av_devices(&pick->count);
	if (!name)
		return true;
	pick->one = av_pick_one(name);
	pick->list = &pick->one;
	pick->count = 1;
	return pick->one;
}

static const struct av_action *known;

static const char *action_name(size_t i)
{
	return known[i].name;
}

int av_act(const struct av_command *command, const struct av_action *actions, const char *device,
	   int argc, char **argv)
{
	char hint[AV_HINT_BYTES], where[AV_HINT_BYTES / 2];
	struct av_pick pick;

	for (known = actions; known->name; known++)
		if (!strcmp(argv[0], known->name))
			return av_pick(&pick, device) ? known->main(&pick, argc - 1, argv + 1)
						      : AV_EXIT_NO;
	known = actions;
	snprintf(where, sizeof(where), "'anyverbs help %s' says more", command->name);
	return av_tool_misuse(command, "there is no action '%s'%s", argv[0],
			      av_tool_hint(argv[0], action_name, where, hint));
}
