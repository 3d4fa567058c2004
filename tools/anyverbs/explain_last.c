/* SPDX-License-Identifier: MIT */
#include "explain_last.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "observe/flight.h"
#include "registry/directory.h"

static bool is_cause(const struct av_flight_record *r, pid_t leader, uint64_t since_ns)
{
	return (r->pid == leader || r->by == leader || r->by_group == leader) &&
	       r->time_ns >= since_ns && r->kind != AV_FLIGHT_FLUSH;
}

static const struct av_flight_file *open_flight(void)
{
	char path[256];
	int folder = av_folder_find(path, sizeof(path));
	const struct av_flight_file *file = folder < 0 ? NULL : av_flight_open(folder);

	if (folder >= 0)
		close(folder);
	return file;
}

bool av_explain_last(pid_t leader, uint64_t since_ns, char text[AV_EXPLAIN_MAX])
{
	const struct av_flight_file *file = open_flight();
	struct av_flight_record r;
	bool found = false;
	uint64_t at, first;

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

#define FREEDOM	     "STRICT_" /* how the names of their checks begin */
#define FREEDOMS_MAX 16

void av_explain_freedoms(const pid_t leader[2], uint64_t since_ns)
{
	const struct av_flight_file *file = open_flight();
	char text[AV_EXPLAIN_MAX];
	struct av_flight_record r;
	uint64_t next = file ? av_flight_next(file) : 0, at = av_flight_first(next);
	int shown = 0;

	for (; at < next && shown < FREEDOMS_MAX; at++) {
		if (!av_flight_read(file, at, &r) ||
		    strncmp(av_check_row(r.check)->name, FREEDOM, strlen(FREEDOM)) ||
		    !(is_cause(&r, leader[0], since_ns) || is_cause(&r, leader[1], since_ns)))
			continue;
		av_explain(&r, text);
		fprintf(stderr, "anyverbs: a freedom of the device: %s", text);
		shown++;
	}
	if (file)
		av_flight_close(file);
}
