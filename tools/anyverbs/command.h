/* SPDX-License-Identifier: MIT */
/*
 * The commands of the tool. Each has one file and one entry in AV_COMMANDS: X(stat) stands for
 * "const struct av_command av_command_stat" in stat.c. "anyverbs help" lists them in this order.
 */
#pragma once

#include "base/compiler.h"
#include "base/text.h"
#include "option.h"

/* clang-format off */
#define AV_COMMANDS(X) \
	X(run) X(pair) X(devices) X(info) X(stat) X(top) X(plot) X(explain) X(event) \
	X(capture) X(config) X(reset) X(faults) X(doctor) X(help)
/* clang-format on */

/* Exit statuses, part of the interface: see anyverbs(1). "run" uses those of env(1). */
enum av_exit {
	AV_EXIT_OK = 0,
	AV_EXIT_NO = 1,	   /* the answer is no: no such device, something essential is missing */
	AV_EXIT_USAGE = 2, /* wrong command line */
	AV_EXIT_TIMED_OUT = 124,
	AV_EXIT_RUN_FAILED = 125,
	AV_EXIT_CANNOT_EXECUTE = 126,
	AV_EXIT_NOT_FOUND = 127,
};

#define AV_ANY_NUMBER 1000000u /* of operands */

struct av_command {
	const char *name;
	const char *summary;		 /* one line, no full stop */
	const char *operands;		 /* as the usage line shows them */
	unsigned int least, most;	 /* how many operands there may be */
	const struct av_option *options; /* ends with a row without a name; NULL: none */
	const char *details;		 /* more lines of help, each ending in a newline */
	const char *examples;		 /* commands that work, a line each */
	enum av_exit misuse;		 /* status after a wrong command line; 0: AV_EXIT_USAGE */
	bool runs;			 /* a program's: the first operand ends the options */

	/* @argv: the @argc operands. The options are where their rows say. Return: exit status */
	int (*main)(int argc, char **argv);
};

#define AV_DECLARE_COMMAND(name) extern const struct av_command av_command_##name;
AV_COMMANDS(AV_DECLARE_COMMAND)
#undef AV_DECLARE_COMMAND

/* Write "anyverbs: text" and a newline to standard error. */
void av_tool_complain(const char *fmt, ...) AV_PRINTF(1, 2);

/* Say that standard output could not be written; errno says why. Return: exit status. */
int av_tool_unwritten(void);

/* Say what is wrong with the command line, and the usage of @command. Return: exit status. */
int av_tool_misuse(const struct av_command *command, const char *fmt, ...) AV_PRINTF(2, 3);

#define AV_HINT_BYTES 128

/*
 * What to say behind "there is no WHAT 'WORD'": "; did you mean 'NEAREST'?", or else "; " and
 * @where, which says where to look. Return: @hint
 */
const char *av_tool_hint(const char *word, av_word_list list, const char *where,
			 char hint[AV_HINT_BYTES]);
