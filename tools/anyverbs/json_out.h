/* SPDX-License-Identifier: MIT */
/* Output for programs: what "--json" writes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "device/device.h"

/* The row of "--json" in a command's table of options. */
#define AV_JSON_OPTION(to)                                                         \
	{                                                                          \
		'j', "json", NULL, NULL, to, "write a JSON object, not text", NULL \
	}

/*
 * @text as a string of JSON. Names of files and programs may be no UTF-8: then each byte that is
 * not ASCII is a question mark. Return: NULL if memory is short
 */
json_t *av_json_text(const char *text);

/*
 * Write @object to standard output. Takes it over; NULL: out of memory. Return: exit status; a
 * failure has been reported
 */
int av_json_write_object(json_t *object);

/* Likewise {"version": ..., @member: @list}. */
int av_json_write(const char *member, json_t *list);

/* An array of what @make makes of each device. Return: NULL if memory is short */
json_t *av_json_each(struct av_device *const *list, unsigned int count,
		     json_t *(*make)(const struct av_device *dev));

/* Write @object in a line of its own. Takes it over; NULL: out of memory. Return: success */
bool av_json_write_line(json_t *object);
