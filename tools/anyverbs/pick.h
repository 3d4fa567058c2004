/* SPDX-License-Identifier: MIT */
/* Which devices a command is about, and what it is to do with them. */
#ifndef AV_TOOL_PICK_H
#define AV_TOOL_PICK_H

#include <stdbool.h>

#include "command.h"
#include "device/device.h"

struct av_pick {
	struct av_device *const *list;
	unsigned int count;
	struct av_device *one;
};

/**
 * av_pick() - the device called @name, or without a name all there are
 * @pick: out; borrows from the list of devices, and must stay where it is
 *
 * Return: false: there is none of that name, which has been complained of
 */
bool av_pick(struct av_pick *pick, const char *name);

/* What a command does, by its first argument. */
struct av_action {
	const char *name;
	int (*main)(const struct av_pick *pick, int argc, char **argv);
};

/**
 * av_act() - the main function of a command "ACTION [-d DEVICE] [ARGUMENT]..."
 * @actions: @count of them; given the picked devices and the arguments behind the action's name
 * Return: exit status
 */
int av_act(const struct av_command *command, const struct av_action *actions, unsigned int count,
	   int argc, char **argv);

#endif
