/* SPDX-License-Identifier: MIT */
#include "pick.h"

#include <getopt.h>
#include <string.h>

bool av_pick(struct av_pick *pick, const char *name)
{
	pick->list = av_devices(&pick->count);
	if (!name)
		return true;
	pick->one = av_device_by_name(name);
	pick->list = &pick->one;
	pick->count = 1;
	if (!pick->one)
		av_tool_complain("there is no device '%s'; 'anyverbs devices' lists them", name);
	return pick->one != NULL;
}

int av_act(const struct av_command *command, const struct av_action *actions, unsigned int count,
	   int argc, char **argv)
{
	static const struct option options[] = {{"device", required_argument, NULL, 'd'},
						{NULL, 0, NULL, 0}};
	const char *device = NULL;
	struct av_pick pick;
	int c;

	while ((c = getopt_long(argc, argv, "d:", options, NULL)) != -1) {
		if (c != 'd')
			return av_tool_usage(command);
		device = optarg;
	}
	for (unsigned int i = 0; optind < argc && i < count; i++) {
		if (strcmp(argv[optind], actions[i].name))
			continue;
		if (!av_pick(&pick, device))
			return AV_EXIT_NO;
		return actions[i].main(&pick, argc - optind - 1, argv + optind + 1);
	}
	return av_tool_usage(command);
}
