/* SPDX-License-Identifier: MIT */
/*
 * The commands of the tool. Each has one file and one entry in AV_COMMANDS: X(stat) stands for
 * "const struct av_command av_command_stat" in stat.c. "anyverbs help" lists them in this order.
 */
#ifndef AV_TOOL_COMMAND_H
#define AV_TOOL_COMMAND_H

#include "base/compiler.h"

/* clang-format off */
#define AV_COMMANDS(X) \
	X(run) X(devices) X(info) X(stat) X(top) X(plot) X(explain) X(event) \
	X(capture) X(config) X(reset) X(faults) X(doctor) X(help)
/* clang-format on */

/* Exit statuses, part of the interface: see anyverbs(1). "run" uses those of env(1). */
enum av_exit {
	AV_EXIT_OK = 0,
	AV_EXIT_NO = 1,	   /* the answer is no: no such device, something essential is missing */
	AV_EXIT_USAGE = 2, /* wrong command line */
	AV_EXIT_RUN_FAILED = 125,
	AV_EXIT_CANNOT_EXECUTE = 126,
	AV_EXIT_NOT_FOUND = 127,
};

struct av_command {
	const char *name;
	const char *summary;  /* one line, no full stop */
	const char *synopsis; /* arguments, as shown after the command's name */
	const char *details;  /* more lines of help, each ending in a newline */

	/* @argv[0] is the command's name. Return: exit status */
	int (*main)(int argc, char **argv);
};

#define AV_DECLARE_COMMAND(name) extern const struct av_command av_command_##name;
AV_COMMANDS(AV_DECLARE_COMMAND)
#undef AV_DECLARE_COMMAND

/* Write "anyverbs: text" and a newline to standard error. */
void av_tool_complain(const char *fmt, ...) AV_PRINTF(1, 2);

/* Print the usage line of @command to standard error. Return: AV_EXIT_USAGE. */
int av_tool_usage(const struct av_command *command);

#endif
