/* SPDX-License-Identifier: MIT */
#include "json_out.h"

#include <stdio.h>

#include "command.h"

static bool write_object(json_t *object, size_t flags)
{
	bool ok = object && json_dumpf(object, stdout, flags) == 0 && putchar('\n') != EOF;

	json_decref(object);
	return ok;
}

int av_json_write(const char *member, json_t *list)
{
	json_t *all = list ? json_pack("{s:s, s:o}", "version", AV_VERSION, member, list) : NULL;

	if (write_object(all, JSON_INDENT(2)))
		return AV_EXIT_OK;
	av_tool_complain("cannot write the output");
	return AV_EXIT_NO;
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
