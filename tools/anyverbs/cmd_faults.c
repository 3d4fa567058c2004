/* SPDX-License-Identifier: MIT */
/* "anyverbs faults": sets fault rules for running and future programs. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "registry/directory.h"
#include "segment/totals.h"
#include "segment/fault_rules.h"
#include "pick.h"

#define CARET_INDENT 4

/* Show the faulty line and mark the place of the mistake. */
static int refuse(const char *text, const struct av_faults_error *error)
{
	const char *line = text;
	int length;

	for (unsigned int i = 1; i < error->line; i++)
		line = strchr(line, '\n') + 1;
	length = (int)strcspn(line, "\n");
	av_tool_complain("line %u, column %u: %s", error->line, error->column, error->text);
	fprintf(stderr, "%*s%.*s\n%*s\n", CARET_INDENT, "", length, line,
		CARET_INDENT + (int)error->column, "^");
	return AV_EXIT_USAGE;
}

/* --- set and clear --------------------------------------------------------------- */

static int write_one(const char *device, const char *text)
{
	unsigned int told;
	int ret = av_faults_write(device, text, &told);

	if (ret) {
		av_tool_complain("%s: cannot save the faults: %s", device, strerror(-ret));
		return AV_EXIT_NO;
	}
	printf("%s: faults %s; %u context%s notified\n", device, *text ? "set" : "cleared", told,
	       told == 1 ? "" : "s");
	return AV_EXIT_OK;
}

static int write_all(const struct av_pick *pick, const char *text)
{
	int ret = av_dir_join(av_totals_of_context), status = AV_EXIT_OK;

	if (ret) {
		av_tool_complain("cannot find programs that use devices: %s", strerror(-ret));
		return AV_EXIT_NO;
	}
	for (unsigned int i = 0; i < pick->count && status == AV_EXIT_OK; i++)
		status = write_one(pick->list[i]->ibv.name, text);
	av_seg_drop_idle();
	av_dir_leave();
	return status;
}

/* Join the arguments to one text. Each argument is one rule or more. */
static bool join_words(char text[AV_FAULTS_BYTES], int argc, char **argv)
{
	size_t at = 0;

	text[0] = '\0';
	for (int i = 0; i < argc; i++) {
		int n = snprintf(text + at, AV_FAULTS_BYTES - at, "%s%s", i ? "\n" : "", argv[i]);

		at += (size_t)n;
		if (at >= AV_FAULTS_BYTES)
			return false;
	}
	return true;
}

static int set(const struct av_pick *pick, int argc, char **argv)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	struct av_faults_error error;
	char text[AV_FAULTS_BYTES];
	int n;

	if (!join_words(text, argc, argv)) {
		av_tool_complain("the faults are longer than %d bytes", AV_FAULTS_BYTES - 1);
		return AV_EXIT_USAGE;
	}
	n = av_faults_parse(text, rules, &error);
	if (n < 0)
		return refuse(text, &error);
	if (n == 0)
		return av_tool_usage(&av_command_faults);
	return write_all(pick, text);
}

static int clear(const struct av_pick *pick, int argc, char **argv)
{
	return argc ? av_tool_usage(&av_command_faults) : write_all(pick, "");
}

/* --- list ------------------------------------------------------------------------ */

static void list_one(const char *device)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	struct av_faults_error error;
	char text[AV_FAULTS_BYTES];
	int n = av_faults_read(device, text) ? av_faults_parse(text, rules, &error) : 0;

	if (n <= 0)
		printf("%s: no faults\n", device);
	for (int i = 0; i < n; i++)
		printf("%s: %u: %.*s\n", device, rules[i].number, (int)rules[i].len,
		       text + rules[i].at);
}

static int list(const struct av_pick *pick, int argc, char **argv)
{
	if (argc)
		return av_tool_usage(&av_command_faults);
	for (unsigned int i = 0; i < pick->count; i++)
		list_one(pick->list[i]->ibv.name);
	return AV_EXIT_OK;
}

/* --- the command line ------------------------------------------------------------ */

static const struct av_action actions[] = {{"set", set}, {"list", list}, {"clear", clear}};

static int faults_main(int argc, char **argv)
{
	return av_act(&av_command_faults, actions, AV_ARRAY_SIZE(actions), argc, argv);
}

const struct av_command av_command_faults = {
	.name = "faults",
	.summary = "Inject faults: delays, losses, refusals, on demand and repeatably",
	.synopsis = "set|list|clear [-d DEVICE] [RULE]...",
	.details =
		"  set    replace all rules by these\n"
		"  list   show the rules in force\n"
		"  clear  remove all rules\n"
		"\n"
		"  -d, --device DEVICE  use this device only, instead of all devices\n"
		"\n"
		"A RULE is one argument, such as 'rnr 3 qp 17 every 10'; anyverbs_faults(5)\n"
		"describes the language. Running programs notice the change at their next request\n"
		"or verb; programs started later get the rules too, until they are cleared. To\n"
		"set rules for one program, use ANYVERBS_FAULTS.\n",
	.main = faults_main,
};
