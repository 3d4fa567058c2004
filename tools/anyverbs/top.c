/* SPDX-License-Identifier: MIT */
/* "anyverbs top": shows which processes use devices, and what they do. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "top_view.h"

struct options {
	bool batch;
	double seconds;
	unsigned long looks;
};

static bool sort_by(struct av_top_view *view, const char *name)
{
	for (int i = 0; i < AV_TOP_N; i++)
		if (!strcasecmp(name, av_top_column[i].heading)) {
			view->sort = (enum av_top_column)i;
			return true;
		}
	return false;
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return end != text && !*end && *seconds >= 0.01 && *seconds <= 86400;
}

static bool parse_count(const char *text, unsigned long *count)
{
	char *end;

	errno = 0;
	*count = strtoul(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *count > 0;
}

static bool parse(int argc, char **argv, struct options *o, struct av_top_view *view)
{
	static const struct option options[] = {{"batch", no_argument, NULL, 'b'},
						{"count", required_argument, NULL, 'n'},
						{"delay", required_argument, NULL, 'd'},
						{"sort", required_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "bn:d:s:", options, NULL)) != -1) {
		if (c == 'b')
			o->batch = true;
		else if (c == 'n')
			ok = parse_count(optarg, &o->looks);
		else if (c == 'd')
			ok = parse_seconds(optarg, &o->seconds);
		else
			ok = c == 's' && sort_by(view, optarg);
	}
	return ok && argc - optind <= 1;
}

static void print(const struct av_top_view *view)
{
	char line[512];

	for (size_t i = 0; i < view->devices; i++) {
		av_top_device_line(&view->device[i], line, sizeof(line));
		puts(line);
	}
	av_top_heading(line, sizeof(line));
	puts(line);
	for (size_t i = 0; i < view->rows; i++) {
		av_top_line(&view->row[i], line, sizeof(line));
		puts(line);
	}
}

static void rest(double seconds)
{
	struct timespec t = {.tv_sec = (time_t)seconds};

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* The first look is not shown: rates need an interval. */
static int batch(struct av_top_view *view, const struct options *o)
{
	bool ok = av_top_look(view);

	for (unsigned long n = 0; ok && (!o->looks || n < o->looks); n++) {
		rest(o->seconds);
		ok = av_top_look(view);
		if (!ok)
			break;
		if (n)
			putchar('\n');
		print(view);
		if (fflush(stdout))
			return AV_EXIT_NO; /* main() reports it */
	}
	if (!ok)
		av_tool_complain("out of memory");
	return ok ? AV_EXIT_OK : AV_EXIT_NO;
}

static int top_main(int argc, char **argv)
{
	struct av_top_view view = {.sort = AV_TOP_XMIT};
	struct options o = {.seconds = 2};
	int status;

	if (!parse(argc, argv, &o, &view))
		return av_tool_usage(&av_command_top);
	if (argc > optind) {
		view.only = av_device_by_name(argv[optind]);
		if (!view.only) {
			av_tool_complain("there is no device '%s'; 'anyverbs devices' lists them",
					 argv[optind]);
			return AV_EXIT_NO;
		}
	}
	status = o.batch ? batch(&view, &o) : av_top_screen(&view, o.seconds, o.looks);
	av_top_end(&view);
	return status;
}

const struct av_command av_command_top = {
	.name = "top",
	.summary = "Show, live, which processes use devices and what they do",
	.synopsis = "[DEVICE] [-b] [-n N] [-d SECONDS] [-s COLUMN]",
	.details = "  -b, --batch          write plain text, without a terminal\n"
		   "  -n, --count N        stop after N looks\n"
		   "  -d, --delay SECONDS  time between looks; default 2\n"
		   "  -s, --sort COLUMN    pid, qps, xmit (default), rcv, msgs, faults, errors or "
		   "regmb\n"
		   "\n"
		   "XMIT and RCV show payload in MB per second, MSGS and FAULTS messages and page\n"
		   "faults per second, ERRORS the total, REGMB registered MB. On the terminal, h\n"
		   "lists the keys.\n",
	.main = top_main,
};
