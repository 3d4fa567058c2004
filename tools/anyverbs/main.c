/* SPDX-License-Identifier: MIT */
/* The command line: which command it names, and what is said when it is wrong. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "colour.h"
#include "help.h"
#include "mlxconfig.h"
#include "settings.h"

AV_PRINTF(1, 0)
static void say(const char *fmt, va_list ap)
{
	fprintf(stderr, "%sanyverbs: ", av_colour(stderr, AV_COLOUR_BAD));
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "%s\n", av_colour(stderr, AV_COLOUR_OFF));
}

void av_tool_complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

int av_tool_unwritten(void)
{
	av_tool_complain("cannot write the output: %s", strerror(errno));
	return AV_EXIT_NO;
}

int av_tool_misuse(const struct av_command *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	av_help_usage(stderr, command);
	return command->misuse ? command->misuse : AV_EXIT_USAGE;
}

const char *av_tool_hint(const char *word, av_word_list list, const char *where,
			 char hint[AV_HINT_BYTES])
{
	const char *nearest = av_word_nearest((struct av_word){word, strlen(word)}, list);

	if (nearest)
		snprintf(hint, AV_HINT_BYTES, "; did you mean '%s'?", nearest);
	else
		snprintf(hint, AV_HINT_BYTES, "; %s", where);
	return hint;
}

static int dispatch(int argc, char **argv)
{
	const struct av_command *command;
	int status, first;

	if (argc < 2) {
		av_help_overview(stderr);
		return AV_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		av_help_overview(stdout);
		return AV_EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("anyverbs " AV_VERSION);
		return AV_EXIT_OK;
	}
	command = av_command_find(argv[1]);
	if (!command)
		return AV_EXIT_USAGE;
	av_settings_check();
	status = av_options_read(command, argc - 1, argv + 1, &first);
	return status < 0 ? command->main(argc - 1 - first, argv + 1 + first) : status;
}

/*
 * Of standard input, output and error, those that are closed must not become files that we open.
 * Nothing can be written there, as before, and a program that we become finds them closed.
 */
static void fill_standard_descriptors(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	int status;

	fill_standard_descriptors();
	status = argc && av_is_mlxconfig(argv[0]) ? av_mlxconfig(argc, argv) : dispatch(argc, argv);
	/* Lost output (a full disk) must not look like success. */
	if ((fflush(stdout) || ferror(stdout)) && status == AV_EXIT_OK)
		status = av_tool_unwritten();
	return status;
}
