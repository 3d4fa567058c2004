/* SPDX-License-Identifier: MIT */
#include "json_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

json_t *av_json_text(const char *text)
{
	json_t *string = json_string(text);
	char *ascii = string ? NULL : strdup(text);

	if (!ascii)
		return string;
	for (char *c = ascii; *c; c++)
		if (*c & 0x80)
			*c = '?';
	string = json_string(ascii);
	free(ascii);
	return string;
}

static bool write_object(json_t *object, size_t flags)
{
	bool ok = object && json_dumpf(object, stdout, flags) == 0 && putchar('\n') != EOF;

	json_decref(object);
	return ok;
}

int av_json_write_object(json_t *object)
{
	if (!object) {
		av_tool_complain("out of memory");
		return AV_EXIT_NO;
	}
	return write_object(object, JSON_INDENT(2)) ? AV_EXIT_OK : av_tool_unwritten();
}

int av_json_write(const char *member, json_t *list)
{
	return av_json_write_object(
		list ? json_pack("{s:s, s:o}", "version", AV_VERSION, member, list) : NULL);
}

json_t *av_json_each(struct av_device *const *list, unsigned int count,
		     json_t *(*make)(const struct av_device *dev))
{
	json_t *all = json_array();

	for (unsigned int i = 0; all && i < count; i++)
		if (json_array_append_new(all, make(list[i]))) {
			json_decref(all);
			return NULL;
		}
	return all;
}

bool av_json_write_line(json_t *object)
{
	return write_object(object, JSON_COMPACT);
}
