/* SPDX-License-Identifier: MIT */
/* "anyverbs run": a program with the library preloaded. Nothing stays between the two: the tool
 * becomes it.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/config.h"
#include "library.h"
#include "unreached.h"

/* Runtimes of sanitizers, which must come before everything else; a list for LD_PRELOAD, or empty.
 */
#ifndef AV_TOOL_PRELOAD_FIRST
#define AV_TOOL_PRELOAD_FIRST ""
#endif

/* @a and @b joined by @separator; only one of them if the other is NULL or empty. Return: NULL if
 * memory is short. */
static char *join(const char *a, const char *b, char separator)
{
	char *text;

	if (!a || !*a)
		return strdup(b ? b : "");
	if (!b || !*b)
		return strdup(a);
	return asprintf(&text, "%s%c%s", a, separator, b) < 0 ? NULL : text;
}

/* Set the variable to @a and @b joined, so that nobody else has to care about memory. */
static bool set_joined(const char *name, const char *a, const char *b, char separator)
{
	char *text = join(a, b, separator);
	bool ok = text && setenv(name, text, 1) == 0;

	if (!ok)
		av_tool_complain("cannot set %s: %s", name, strerror(errno));
	free(text);
	return ok;
}

static bool preload(const char *path, bool found)
{
	if (!found)
		av_tool_complain("there is no library at %s; set ANYVERBS_LIBRARY to where it is",
				 path);
	else if (strpbrk(path, ": "))
		av_tool_complain("%s: LD_PRELOAD cannot hold a path with a colon or a space", path);
	else
		return set_joined("LD_PRELOAD", path, getenv("LD_PRELOAD"), ':');
	return false;
}

/* Each goes before those that are there. */
static bool preload_libraries(bool shared_heap)
{
	char library[PATH_MAX], heap[PATH_MAX];
	bool found = av_library_find(library);

	memcpy(heap, library, sizeof(heap));
	return (!shared_heap || !found || preload(heap, av_library_find_heap(heap))) &&
	       preload(library, found) &&
	       (!*AV_TOOL_PRELOAD_FIRST ||
		set_joined("LD_PRELOAD", AV_TOOL_PRELOAD_FIRST, getenv("LD_PRELOAD"), ':'));
}

/* Say what is wrong with it now, once, rather than in each process of the program. */
static bool check_devices(const char *text)
{
	struct av_config config;

	av_config_parse(text, &config);
	for (unsigned int i = 0; i < config.complaint_count && i < AV_COMPLAINT_MAX; i++)
		av_tool_complain("--device: %s", config.complaint[i]);
	return config.complaint_count == 0;
}

/* The first --device replaces what was in the environment, further ones add to it. */
static bool add_device(const char *spec, bool first)
{
	return set_joined("ANYVERBS_DEVICES", first ? NULL : getenv("ANYVERBS_DEVICES"), spec, ',');
}

/* It is run all the same: what it starts may be within reach. */
static void warn_if_unreached(const char *program)
{
	char path[PATH_MAX];
	const char *why = av_unreached_why(program, path);

	if (why)
		av_tool_complain("%s %s: the library is not loaded into it, and it sees no device "
				 "of ours; see anyverbs-run(1)",
				 path, why);
}

static int become(char **argv)
{
	warn_if_unreached(argv[0]);
	execvp(argv[0], argv);
	av_tool_complain("cannot run %s: %s", argv[0], strerror(errno));
	return errno == ENOENT ? AV_EXIT_NOT_FOUND : AV_EXIT_CANNOT_EXECUTE;
}

struct choices {
	bool devices; /* some were given */
	bool shared_heap;
};

static bool parse(int argc, char **argv, struct choices *chosen)
{
	static const struct option options[] = {{"device", required_argument, NULL, 'd'},
						{"shared-heap", no_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "+d:s", options, NULL)) != -1) {
		if (c == 's') {
			chosen->shared_heap = true;
		} else if (c != 'd') {
			av_tool_usage(&av_command_run);
			return false;
		} else if (!add_device(optarg, !chosen->devices)) {
			return false;
		} else {
			chosen->devices = true;
		}
	}
	if (optind < argc)
		return true;
	av_tool_usage(&av_command_run);
	return false;
}

static bool wants_shared_heap(void)
{
	const char *text = getenv("ANYVERBS_SHARED_HEAP");

	return text && strcmp(text, "1") == 0;
}

static int run_main(int argc, char **argv)
{
	struct choices chosen = {.shared_heap = wants_shared_heap()};

	if (!parse(argc, argv, &chosen) ||
	    (chosen.devices && !check_devices(getenv("ANYVERBS_DEVICES"))) ||
	    !preload_libraries(chosen.shared_heap))
		return AV_EXIT_RUN_FAILED;
	return become(argv + optind);
}

const struct av_command av_command_run = {
	.name = "run",
	.summary = "Run a program that then sees anyverbs' devices",
	.synopsis = "[--device SPEC]... [--shared-heap] [--] PROGRAM [ARGUMENT]...",
	.details =
		"  -d, --device SPEC  show this device instead of the default one; repeat for "
		"more\n"
		"  -s, --shared-heap  let the program's large blocks of memory be shared from the "
		"beginning\n"
		"\n"
		"SPEC is NAME[:KEY=VALUE]..., for example mlx5_0:link=infiniband:lid=7, or\n"
		"connectx:8 for that many devices like those of ConnectX adapters; see\n"
		"anyverbs_config(5).\n"
		"The program's exit status, or 125 if anyverbs fails, 126 if the program cannot "
		"be\n"
		"executed, 127 if it is not found.\n",
	.main = run_main,
};
