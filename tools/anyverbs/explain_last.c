/* SPDX-License-Identifier: MIT */
#include "explain_last.h"

#include <unistd.h>

#include "observe/flight.h"
#include "registry/directory.h"

static bool is_cause(const struct av_flight_record *r, pid_t leader, uint64_t since_ns)
{
	return (r->pid == leader || r->by == leader || r->by_group == leader) &&
	       r->time_ns >= since_ns && r->kind != AV_FLIGHT_FLUSH;
}

bool av_explain_last(pid_t leader, uint64_t since_ns, char text[AV_EXPLAIN_MAX])
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
		found = av_flight_read(file, --at, &r) && is_cause(&r, leader, since_ns);
	if (found)
		av_explain(&r, text);
	av_flight_close(file);
	return found;
}
