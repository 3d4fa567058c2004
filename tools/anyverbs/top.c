/* SPDX-License-Identifier: MIT */
/* "anyverbs top": shows which processes use devices, and what they do. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "json_out.h"
#include "others.h"
#include "pick.h"
#include "top_view.h"

static struct av_top_view view = {.sort = AV_TOP_XMIT};

static struct {
	bool batch, json;
	double seconds;
	uint64_t looks; /* 0: until interrupted */
} wishes = {.seconds = 2};

static bool take_column(const char *name, void *to)
{
	for (int i = 0; i < AV_TOP_N; i++)
		if (!strcasecmp(name, av_top_column[i].heading)) {
			*(enum av_top_column *)to = (enum av_top_column)i;
			return true;
		}
	return false;
}

static const struct av_value column = {"pid, qps, xmit, rcv, msgs, faults, errors or regmb",
				       take_column};

static void print(void)
{
	char line[512];

	for (size_t i = 0; i < view.devices; i++)
		for (unsigned int n = 0; n < AV_TOP_DEVICE_LINES; n++) {
			av_top_device_line(&view.device[i], n, line, sizeof(line));
			puts(line);
		}
	av_top_heading(line, sizeof(line));
	puts(line);
	for (size_t i = 0; i < view.rows; i++) {
		av_top_line(&view.row[i], line, sizeof(line));
		puts(line);
	}
}

static json_t *json_of(const struct av_top_row *row, size_t count, bool processes)
{
	json_t *all = json_array();

	for (const struct av_top_row *r = row; r < row + count; r++) {
		json_t *one = json_pack("{s:s}", "device", r->device);

		if (processes)
			json_object_set_new(one, "command", json_string(r->command));
		for (int i = 0; i < AV_TOP_N; i++)
			json_object_set_new(one,
					    i == AV_TOP_PID && !processes ? "processes"
									  : av_top_column[i].member,
					    av_top_column[i].decimals
						    ? json_real(r->value[i])
						    : json_integer((json_int_t)r->value[i]));
		json_array_append_new(all, one);
	}
	return all;
}

static bool print_json(void)
{
	return av_json_write_line(json_pack("{s:I, s:o, s:o}", "time", (json_int_t)time(NULL),
					    "devices", json_of(view.device, view.devices, false),
					    "processes", json_of(view.row, view.rows, true)));
}

static void rest(double seconds)
{
	struct timespec t = {.tv_sec = (time_t)seconds};

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* The first look is not shown: rates need an interval. */
static int batch(void)
{
	bool ok = av_top_look(&view);

	for (uint64_t n = 0; ok && (!wishes.looks || n < wishes.looks); n++) {
		rest(wishes.seconds);
		ok = av_top_look(&view);
		if (!ok)
			break;
		if (n && !wishes.json)
			putchar('\n');
		if (wishes.json)
			ok = print_json();
		else
			print();
		if (fflush(stdout))
			return av_tool_unwritten();
	}
	if (!ok)
		av_tool_complain("out of memory");
	return ok ? AV_EXIT_OK : AV_EXIT_NO;
}

static int top_main(int argc, char **argv)
{
	int status;

	if (argc && !(view.only = av_pick_one(argv[0])))
		return AV_EXIT_NO;
	av_others_complain();
	status = wishes.batch || wishes.json ? batch()
					     : av_top_screen(&view, wishes.seconds, wishes.looks);
	av_top_end(&view);
	return status;
}

static const struct av_option options[] = {
	{'b', "batch", NULL, NULL, &wishes.batch, "write plain text, without a terminal", NULL},
	{'n', "count", "N", &av_value_count, &wishes.looks, "stop after N looks", NULL},
	{'d', "delay", "SECONDS", &av_value_seconds, &wishes.seconds,
	 "time between looks; default 2", NULL},
	{'s', "sort", "COLUMN", &column, &view.sort,
	 "pid, qps, xmit (default), rcv, msgs, faults, errors\nor regmb", NULL},
	{'j', "json", NULL, NULL, &wishes.json, "write a JSON object per look, as a line", NULL},
	{.name = NULL}};

const struct av_command av_command_top = {
	.name = "top",
	.summary = "Show, live, which processes use devices and what they do",
	.operands = "[DEVICE]",
	.most = 1,
	.options = options,
	.details = "XMIT and RCV show payload in MB per second, MSGS and FAULTS messages and page\n"
		   "faults per second, ERRORS the total, REGMB registered MB. On the terminal, h\n"
		   "lists the keys.\n",
	.examples = "anyverbs top -b -n 1 -d 0.5\n"
		    "anyverbs top --json -n 1 -d 0.5 any0\n",
	.main = top_main,
};
