/* SPDX-License-Identifier: MIT */
/* Which devices a command is about. */
#ifndef AV_TOOL_PICK_H
#define AV_TOOL_PICK_H

#include <stdbool.h>

#include "hca/device.h"

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

#endif
