/* SPDX-License-Identifier: MIT */
/* The table of commands, help, and dispatch. */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mlxconfig.h"

#define SUMMARY_COLUMN 10

#define AV_COMMAND_ROW(name) &av_command_##name,
static const struct av_command *const commands[] = {AV_COMMANDS(AV_COMMAND_ROW)};
#undef AV_COMMAND_ROW

void av_tool_complain(const char *fmt, ...)
{
	va_list ap;

	fputs("anyverbs: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void print_usage(FILE *out, const struct av_command *command)
{
	fprintf(out, "usage: anyverbs %s%s%s\n", command->name, *command->synopsis ? " " : "",
		command->synopsis);
}

int av_tool_usage(const struct av_command *command)
{
	print_usage(stderr, command);
	return AV_EXIT_USAGE;
}

static const struct av_command *find(const char *name)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i]->name))
			return commands[i];
	return NULL;
}

static void print_overview(FILE *out)
{
	fputs("usage: anyverbs COMMAND [ARGUMENT]...\n"
	      "       anyverbs --help | --version\n"
	      "\n"
	      "RDMA verbs on any Linux machine: no RDMA adapter, no kernel module, no root.\n"
	      "\n",
	      out);
	for (size_t i = 0; i < AV_ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-*s%s\n", SUMMARY_COLUMN, commands[i]->name, commands[i]->summary);
	fputs("\n"
	      "'anyverbs help COMMAND' says more; see also anyverbs(1) and anyverbs(7).\n",
	      out);
}

static void print_help(const struct av_command *command)
{
	print_usage(stdout, command);
	printf("\n%s.\n", command->summary);
	if (*command->details)
		printf("\n%s", command->details);
}

static int unknown(const char *name)
{
	av_tool_complain("there is no command '%s'; 'anyverbs help' lists them", name);
	return AV_EXIT_USAGE;
}

static int help_main(int argc, char **argv)
{
	const struct av_command *command;

	if (argc > 2)
		return av_tool_usage(&av_command_help);
	if (argc < 2) {
		print_overview(stdout);
		return AV_EXIT_OK;
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	print_help(command);
	return AV_EXIT_OK;
}

const struct av_command av_command_help = {
	.name = "help",
	.summary = "Explain the tool or one of its commands",
	.synopsis = "[COMMAND]",
	.details = "",
	.main = help_main,
};

static bool is_help_option(const char *arg)
{
	return !strcmp(arg, "--help") || !strcmp(arg, "-h");
}

static int dispatch(int argc, char **argv)
{
	const struct av_command *command;

	if (argc < 2) {
		print_overview(stderr);
		return AV_EXIT_USAGE;
	}
	if (is_help_option(argv[1])) {
		print_overview(stdout);
		return AV_EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("anyverbs " AV_VERSION);
		return AV_EXIT_OK;
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	if (argc > 2 && is_help_option(argv[2])) {
		print_help(command);
		return AV_EXIT_OK;
	}
	return command->main(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status =
		argc && av_is_mlxconfig(argv[0]) ? av_mlxconfig(argc, argv) : dispatch(argc, argv);

	/* Lost output (a full disk) must not look like success. */
	if ((fflush(stdout) || ferror(stdout)) && status == AV_EXIT_OK) {
		av_tool_complain("cannot write the output: %s", strerror(errno));
		status = AV_EXIT_NO;
	}
	return status;
}
