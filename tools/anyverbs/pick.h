/* SPDX-License-Identifier: MIT */
/* Chooses the devices and the action that a command line names. */
#pragma once

#include <stdbool.h>

#include "command.h"
#include "device/device.h"

struct av_pick {
	struct av_device *const *list;
	unsigned int count;
	struct av_device *one;
};

/* The device called @name. Return: NULL if there is none, already reported */
struct av_device *av_pick_one(const char *name);

/**
 * av_pick() - the device called @name, or all devices if @name is NULL
 * @pick: out; borrows from the device list, and must not be moved
 * Return: false if there is no such device, already reported
 */
bool av_pick(struct av_pick *pick, const char *name);

/* An action of a command, chosen by the first operand. */
struct av_action {
	const char *name; /* NULL: after the last */
	int (*main)(const struct av_pick *pick, int argc, char **argv);
};

/**
 * av_act() - the main function of a command "ACTION [OPERAND]..."
 * @actions: each gets the chosen devices and the operands after its name
 * @device: NULL: all
 * Return: exit status
 */
int av_act(const struct av_command *command, const struct av_action *actions, const char *device,
	   int argc, char **argv);
