/* SPDX-License-Identifier: MIT */
/* "anyverbs explain": shows what failed, and why. */
#include "command.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json_out.h"
#include "observe/check.h"
#include "observe/flight.h"
#include "others.h"
#include "pick.h"
#include "registry/directory.h"
#include "segment/pages.h"

#define LOOK_AGAIN_MS 1000u /* how often to check that standard output still exists */
#define RECORD_MS     100u  /* how long to wait for a record that is still being written */

struct wishes {
	bool follow, json, clear;
	uint64_t count; /* number of latest records; UINT64_MAX: all */
	uint64_t pid;	/* 0: any */
	const char *device;
};

static bool is_wanted(const struct wishes *w, const struct av_flight_record *r)
{
	return (!w->pid || (uint64_t)r->pid == w->pid || (uint64_t)r->by == w->pid) &&
	       (!w->device || !strcmp(r->device, w->device));
}

/* --- one record ------------------------------------------------------------------ */

static json_t *value_of(const struct av_field *field, const struct av_flight_record *r)
{
	char text[AV_FIELD_TEXT_MAX];

	if (av_field_is_number(field))
		return json_integer(av_field_number(field, r));
	av_field_write(field, field->form, r, text);
	return av_json_text(text);
}

static bool print_json(const struct av_flight_record *r)
{
	const struct av_check_row *row = av_check_row(r->check);
	char text[AV_EXPLAIN_MAX];
	json_t *all = json_object();
	unsigned int count;
	const struct av_field *fields = av_fields(&count);
	bool ok = all;

	for (unsigned int i = 0; ok && i < count; i++)
		if (av_field_is_set(&fields[i], r))
			ok = json_object_set_new(all, fields[i].name, value_of(&fields[i], r)) == 0;
	av_explain_sentence(row->sentence, r, text, sizeof(text));
	ok = ok && json_object_set_new(all, "sentence", json_string(text)) == 0;
	av_explain_sentence(row->advice, r, text, sizeof(text));
	ok = ok && json_object_set_new(all, "advice", json_string(text)) == 0;
	ok = ok && json_object_set_new(all, "clause", json_string(row->clause)) == 0;
	if (!ok) {
		json_decref(all);
		return false;
	}
	return av_json_write_line(all);
}

static bool print_text(const struct av_flight_record *r)
{
	time_t seconds = (time_t)(r->time_ns / 1000000000u);
	char text[AV_EXPLAIN_MAX], when[32] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%H:%M:%S", &tm);
	av_explain(r, text);
	return printf("%s.%06u %s", when, (unsigned int)(r->time_ns / 1000 % 1000000), text) > 0;
}

static bool print(const struct wishes *w, const struct av_flight_record *r)
{
	if (!is_wanted(w, r))
		return true;
	return w->json ? print_json(r) : print_text(r);
}

/* --- all of them ----------------------------------------------------------------- */

/* The record to start from so that @count wanted ones follow. */
static uint64_t begin(const struct wishes *w, const struct av_flight_file *file, uint64_t next)
{
	uint64_t first = av_flight_first(next), at = next, found = 0;
	struct av_flight_record r;

	while (at > first && found < w->count)
		found += av_flight_read(file, --at, &r) && is_wanted(w, &r);
	return at;
}

/* Record @at is missing. If it is still being written, wait for it a while. */
static bool comes_late(const struct av_flight_file *file, uint64_t at, struct av_flight_record *r)
{
	const struct timespec while_ns = {0, 1000000};

	for (unsigned int ms = 0; ms < RECORD_MS && av_flight_first(av_flight_next(file)) <= at;
	     ms++) {
		if (av_flight_read(file, at, r))
			return true;
		nanosleep(&while_ns, NULL);
	}
	return false;
}

/* A strict device does that at nearly every request: it may be the reason if there is no other. */
static bool is_everyday(const struct av_flight_record *r)
{
	return r->check == AV_CHECK_STRICT_WRITE_ORDER || r->check == AV_CHECK_STRICT_READ_ORDER ||
	       r->check == AV_CHECK_STRICT_RECV_BUFFER || r->check == AV_CHECK_STRICT_UNDEFINED ||
	       r->check == AV_CHECK_STRICT_LOST;
}

/* Return: false if it cannot be written, which has been said */
static bool print_from(const struct wishes *w, const struct av_flight_file *file, uint64_t *at)
{
	uint64_t next = av_flight_next(file);
	struct av_flight_record r;
	bool ok = true;

	if (*at < av_flight_first(next))
		*at = av_flight_first(next);
	for (; ok && *at < next; (*at)++)
		if (av_flight_read(file, *at, &r) || (w->follow && comes_late(file, *at, &r)))
			ok = (!w->follow && is_everyday(&r)) || print(w, &r);
	ok = ok && fflush(stdout) == 0;
	if (!ok)
		(void)av_tool_unwritten();
	return ok;
}

/* Nothing is shown of a device: is there one, or is its name mistyped? That is reported. */
static bool is_device(const struct wishes *w)
{
	return !w->device || av_pick_one(w->device);
}

/* Take back what would be shown. Context: the directory has been joined, so that its ring is there.
 */
static void forget(const struct wishes *w, const struct av_flight_file *file)
{
	uint64_t next = av_flight_next(file);
	struct av_flight_record r;

	for (uint64_t at = begin(w, file, next); at < next; at++)
		if (av_flight_read(file, at, &r) && is_wanted(w, &r))
			av_flight_withdraw(at);
}

static const struct av_flight_file *join(void)
{
	const struct av_flight_file *file =
		av_dir_join(av_totals_of_context) ? NULL : av_flight_own();

	if (!file)
		av_tool_complain("cannot use the shared folder");
	return file;
}

static void leave(void)
{
	av_flight_own_end();
	av_dir_leave();
}

/* The last process that leaves also removes a ring without records. */
static int clear(const struct wishes *w)
{
	char path[256];
	int folder = av_folder_find(path, sizeof(path));
	const struct av_flight_file *file;

	if (folder < 0) /* nothing has failed */
		return is_device(w) ? AV_EXIT_OK : AV_EXIT_NO;
	close(folder);
	file = join();
	if (!file)
		return AV_EXIT_NO;
	forget(w, file);
	leave();
	return is_device(w) ? AV_EXIT_OK : AV_EXIT_NO;
}

/* Stays joined, because the ring exists only while somebody has joined the directory. */
static int follow(const struct wishes *w)
{
	const struct av_flight_file *file = join();
	uint64_t at;
	bool ok = true;

	if (!file)
		return AV_EXIT_NO;
	if (w->clear)
		forget(w, file);
	at = begin(w, file, av_flight_next(file));
	while (ok) {
		ok = print_from(w, file, &at);
		av_flight_wait(file, at, LOOK_AGAIN_MS);
	}
	leave();
	return AV_EXIT_NO;
}

static bool has_wanted(const struct wishes *w, const struct av_flight_file *file)
{
	struct wishes one = *w;
	uint64_t next = av_flight_next(file), at;
	struct av_flight_record r;

	one.count = 1;
	at = begin(&one, file, next);
	return at < next && av_flight_read(file, at, &r) && is_wanted(w, &r);
}

static int show(const struct wishes *w)
{
	char path[256];
	int folder = av_folder_find(path, sizeof(path));
	const struct av_flight_file *file = folder < 0 ? NULL : av_flight_open(folder);
	struct av_flight_record r;
	uint64_t at, first;
	bool ok, any;

	if (folder >= 0)
		close(folder);
	if (!file) /* nothing has failed */
		return is_device(w) ? AV_EXIT_OK : AV_EXIT_NO;
	any = has_wanted(w, file);
	first = at = begin(w, file, av_flight_next(file));
	ok = print_from(w, file, &at);
	while (ok && at > first) /* the last one first */
		ok = !av_flight_read(file, --at, &r) || !is_everyday(&r) || print(w, &r);
	av_flight_close(file);
	return ok && (any || is_device(w)) ? AV_EXIT_OK : AV_EXIT_NO;
}

static struct wishes wishes = {.count = UINT64_MAX};

static int explain_main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	av_others_complain();
	if (wishes.follow)
		return follow(&wishes);
	return wishes.clear ? clear(&wishes) : show(&wishes);
}

static const struct av_option options[] = {
	{'c', "clear", NULL, NULL, &wishes.clear, "forget the failures instead of showing them",
	 NULL},
	{'f', "follow", NULL, NULL, &wishes.follow, "keep showing new failures until interrupted",
	 NULL},
	{'n', "count", "COUNT", &av_value_number, &wishes.count, "show the last COUNT only", NULL},
	{'p', "pid", "PID", &av_value_number, &wishes.pid,
	 "show failures of this process, or that it noticed", NULL},
	{'d', "device", "DEVICE", &av_value_device, &wishes.device, "show failures of this device",
	 NULL},
	{'j', "json", NULL, NULL, &wishes.json, "write one JSON object per line, not text", NULL},
	{.name = NULL}};

const struct av_command av_command_explain = {
	.name = "explain",
	.summary = "Say why verbs were refused and work requests failed",
	.operands = "",
	.options = options,
	.details = "Shows the last 4096 failures of all processes of this user, oldest first.\n"
		   "Processes that have ended are included.\n",
	.examples = "anyverbs explain\n"
		    "anyverbs explain -n 1 --json\n"
		    "anyverbs explain --clear\n",
	.main = explain_main,
};
