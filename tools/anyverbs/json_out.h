/* SPDX-License-Identifier: MIT */
/* Output for programs: what "--json" writes. */
#ifndef AV_TOOL_JSON_OUT_H
#define AV_TOOL_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>

#include "device/device.h"

/* The row of "--json" in a command's table of options. */
#define AV_JSON_OPTION(to)                                                          \
	{                                                                           \
		'j', "json", NULL, NULL, to, "write a JSON object, not text", false \
	}

/*
 * Write {"version": ..., @member: @list} to standard output. Takes over @list; NULL: out of memory.
 * Return: exit status; a failure has been reported
 */
int av_json_write(const char *member, json_t *list);

/* An array of what @make makes of each device. Return: NULL if memory is short */
json_t *av_json_each(struct av_device *const *list, unsigned int count,
		     json_t *(*make)(const struct av_device *dev));

/* Write @object in a line of its own. Takes it over; NULL: out of memory. Return: success */
bool av_json_write_line(json_t *object);

#endif
