/* SPDX-License-Identifier: MIT */
/*
 * The commands of the tool. One file per command, and one entry in AV_COMMANDS: the entry X(stat)
 * stands for the "const struct av_command av_command_stat" that stat.c defines. Their order is that
 * of "anyverbs help".
 */
#ifndef AV_TOOL_COMMAND_H
#define AV_TOOL_COMMAND_H

#include "base/compiler.h"

/* clang-format off */
#define AV_COMMANDS(X) \
	X(run) X(devices) X(info) X(stat) X(top) X(plot) X(explain) X(event) X(capture) \
	X(config) X(reset) X(faults) X(doctor) X(help)
/* clang-format on */

/* Exit statuses; "run" has env(1)'s instead. Part of the interface: see anyverbs(1). */
enum av_exit {
	AV_EXIT_OK = 0,
	AV_EXIT_NO = 1,	   /* the answer is no: no such device, something essential is missing */
	AV_EXIT_USAGE = 2, /* the command line was not understood */
	AV_EXIT_RUN_FAILED = 125,
	AV_EXIT_CANNOT_EXECUTE = 126,
	AV_EXIT_NOT_FOUND = 127,
};

struct av_command {
	const char *name;
	const char *summary;  /* one line, no full stop */
	const char *synopsis; /* what follows the name on the command line */
	const char *details;  /* further lines of help, each ended by a newline */

	/* @argv[0] is the command's name. Return: exit status */
	int (*main)(int argc, char **argv);
};

#define AV_DECLARE_COMMAND(name) extern const struct av_command av_command_##name;
AV_COMMANDS(AV_DECLARE_COMMAND)
#undef AV_DECLARE_COMMAND

/* Write "anyverbs: text" and a newline to standard error. */
void av_tool_complain(const char *fmt, ...) AV_PRINTF(1, 2);

/* Say how @command is called, on standard error. Return: AV_EXIT_USAGE */
int av_tool_usage(const struct av_command *command);

#endif
