/* SPDX-License-Identifier: MIT */
#include "explain_last.h"

#include <unistd.h>

#include "observe/flight.h"
#include "registry/folder.h"

bool av_explain_last(bool (*is)(pid_t pid, const void *arg), const void *arg, uint64_t since_ns,
		     char text[AV_EXPLAIN_MAX])
{
	char path[256];
	int folder = av_folder_find(path, sizeof(path));
	const struct av_flight_file *file = folder < 0 ? NULL : av_flight_open(folder);
	struct av_flight_record r;
	bool found = false;
	uint64_t at, first;

	if (folder >= 0)
		close(folder);
	if (!file)
		return false;
	at = av_flight_next(file);
	first = av_flight_first(at);
	while (!found && at > first)
		found = av_flight_read(file, --at, &r) && r.time_ns >= since_ns &&
			r.kind != AV_FLIGHT_FLUSH && (is(r.pid, arg) || is(r.by, arg));
	if (found)
		av_explain(&r, text);
	av_flight_close(file);
	return found;
}
