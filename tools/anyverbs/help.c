/* SPDX-License-Identifier: MIT */
/* "anyverbs help", and the table of commands that it explains. */
#include "help.h"

#include <string.h>

#include "command.h"
#include "observe/faults.h"
#include "observe/freedom.h"

#define SUMMARY_COLUMN 10

#define AV_COMMAND_ROW(name) &av_command_##name,
static const struct av_command *const commands[] = {AV_COMMANDS(AV_COMMAND_ROW)};
#undef AV_COMMAND_ROW

static const char *command_name(size_t i)
{
	return i < AV_ARRAY_SIZE(commands) ? commands[i]->name : NULL;
}

const struct av_command *av_command_find(const char *name)
{
	char hint[AV_HINT_BYTES];

	for (size_t i = 0; i < AV_ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i]->name))
			return commands[i];
	av_tool_complain("there is no command '%s'%s", name,
			 av_tool_hint(name, command_name, "'anyverbs help' lists them", hint));
	return NULL;
}

void av_help_overview(FILE *out)
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

void av_help_usage(FILE *out, const struct av_command *command)
{
	fprintf(out, "usage: anyverbs %s%s", command->name, command->options ? " [OPTION]..." : "");
	fprintf(out, "%s%s\n", *command->operands ? " " : "", command->operands);
}

void av_help(const struct av_command *command)
{
	av_help_usage(stdout, command);
	printf("\n%s.\n", command->summary);
	if (*command->details)
		printf("\n%s", command->details);
	if (command->options) {
		putchar('\n');
		av_options_help(stdout, command->options);
	}
	printf("\nExamples:\n");
	for (const char *line = command->examples; *line; line = strchr(line, '\n') + 1)
		printf("  %.*s\n", (int)strcspn(line, "\n"), line);
}

static void explain_freedoms(void)
{
	puts("A strict device uses every freedom that the specification leaves to it, to find\n"
	     "promises that a program relies on and nobody gave: 'anyverbs run --strict', or\n"
	     "ANYVERBS_DEVICES=any0:strict, or any0:strict=FREEDOM,... for some of these:");
	for (int i = 0; i < AV_FREEDOM_N; i++)
		printf("\n  %s\n    %s\n    may: %s\n    finds: %s\n", av_freedom_info[i].name,
		       av_freedom_info[i].does, av_freedom_info[i].clause,
		       av_freedom_info[i].bitten);
}

static void list_failing_verbs(void)
{
	puts("'anyverbs faults set \"fail VERB [ERRNO]\"' makes a verb fail. These can, each with "
	     "these\n"
	     "errno values, the first by default; anyverbs_faults(5) says more:\n");
	for (int i = 0; i < AV_VERB_N; i++) {
		const char *verb = av_faults_verb_name((enum av_verb)i);

		if (!verb)
			continue;
		printf("  fail %-27s", verb);
		for (const uint8_t *err = av_verb_errs((unsigned int)i); *err; err++)
			printf(" %s", strerrorname_np(*err));
		putchar('\n');
	}
}

static int help_main(int argc, char **argv)
{
	const struct av_command *command;

	if (argc && !strcmp(argv[0], "strict")) {
		explain_freedoms();
		return AV_EXIT_OK;
	}
	if (argc && !strcmp(argv[0], "fail")) {
		list_failing_verbs();
		return AV_EXIT_OK;
	}
	command = argc ? av_command_find(argv[0]) : NULL;
	if (!argc)
		av_help_overview(stdout);
	else if (command)
		av_help(command);
	return argc && !command ? AV_EXIT_USAGE : AV_EXIT_OK;
}

const struct av_command av_command_help = {
	.name = "help",
	.summary = "Explain the tool or one of its commands",
	.operands = "[COMMAND | strict | fail]",
	.most = 1,
	.details = "",
	.examples = "anyverbs help stat\n",
	.main = help_main,
};
