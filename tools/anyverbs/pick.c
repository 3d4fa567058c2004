/* SPDX-License-Identifier: MIT */
#include "pick.h"

#include "command.h"

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
