/* SPDX-License-Identifier: MIT */
/* "anyverbs faults": sets fault rules for running and future programs. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json_out.h"
#include "pick.h"
#include "registry/directory.h"
#include "segment/observers.h"
#include "segment/pages.h"

#define CARET_INDENT 4

static bool json;

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

/* @told_all: with --json, gets what became of the device */
static int write_one(json_t *told_all, const char *device, const char *text)
{
	unsigned int told;
	int ret = av_faults_write(device, text, &told);

	if (ret) {
		av_tool_complain("%s: cannot save the faults: %s", device, strerror(-ret));
		return AV_EXIT_NO;
	}
	if (json) {
		json_array_append_new(
			told_all, json_pack("{s:s, s:i}", "device", device, "contexts", (int)told));
		return AV_EXIT_OK;
	}
	printf("%s: faults %s; %u context%s notified\n", device, *text ? "set" : "cleared", told,
	       told == 1 ? "" : "s");
	return AV_EXIT_OK;
}

static int write_all(const struct av_pick *pick, const char *text)
{
	int ret = av_dir_join(av_totals_of_context), status = AV_EXIT_OK;
	json_t *told;

	if (ret) {
		av_tool_complain("cannot find programs that use devices: %s", strerror(-ret));
		return AV_EXIT_NO;
	}
	told = json ? json_array() : NULL;
	for (unsigned int i = 0; i < pick->count && status == AV_EXIT_OK; i++)
		status = write_one(told, pick->list[i]->ibv.name, text);
	av_seg_drop_idle();
	av_dir_leave();
	if (json && av_json_write("devices", told) != AV_EXIT_OK)
		status = AV_EXIT_NO;
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
		return av_tool_misuse(&av_command_faults, "'set' needs a rule");
	return write_all(pick, text);
}

static int too_many(char **argv)
{
	return av_tool_misuse(&av_command_faults, "'%s' is one argument too many", argv[0]);
}

static int clear(const struct av_pick *pick, int argc, char **argv)
{
	return argc ? too_many(argv) : write_all(pick, "");
}

/* --- list ------------------------------------------------------------------------ */

/* Read the rules in force. Return: how many; the places of @rules are in @text */
static unsigned int read_rules(const char *device, struct av_faults_rule rules[AV_FAULTS_RULES],
			       char text[AV_FAULTS_BYTES])
{
	struct av_faults_error error;
	int n = av_faults_read(device, text) ? av_faults_parse(text, rules, &error) : 0;

	return n > 0 ? (unsigned int)n : 0;
}

#define SEED_BYTES 32 /* of " seed " and its number */

/* The rule, with the seed that one before it may have set. */
static void write_rule(const char *text, const struct av_faults_rule *rule,
		       char to[AV_FAULTS_BYTES + SEED_BYTES])
{
	int n = snprintf(to, AV_FAULTS_BYTES, "%.*s", (int)rule->len, text + rule->at);

	if (rule->seed && !rule->own_seed)
		snprintf(to + n, SEED_BYTES, " seed %" PRIu64, rule->seed);
}

static void list_one(const char *device)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	char text[AV_FAULTS_BYTES], rule[AV_FAULTS_BYTES + SEED_BYTES];
	unsigned int n = read_rules(device, rules, text);

	if (n == 0)
		printf("%s: no faults\n", device);
	for (unsigned int i = 0; i < n; i++) {
		write_rule(text, &rules[i], rule);
		printf("%s: %u: %s\n", device, rules[i].number, rule);
	}
}

static json_t *json_of(const struct av_device *dev)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	char text[AV_FAULTS_BYTES], rule[AV_FAULTS_BYTES + SEED_BYTES];
	unsigned int n = read_rules(dev->ibv.name, rules, text);
	json_t *list = json_array();

	for (unsigned int i = 0; i < n; i++) {
		write_rule(text, &rules[i], rule);
		json_array_append_new(list, json_pack("{s:i, s:o}", "number", (int)rules[i].number,
						      "rule", av_json_text(rule)));
	}
	return json_pack("{s:s, s:o}", "device", dev->ibv.name, "rules", list);
}

static int list(const struct av_pick *pick, int argc, char **argv)
{
	if (argc)
		return too_many(argv);
	if (json)
		return av_json_write("devices", av_json_each(pick->list, pick->count, json_of));
	for (unsigned int i = 0; i < pick->count; i++)
		list_one(pick->list[i]->ibv.name);
	return AV_EXIT_OK;
}

/* --- the command line ------------------------------------------------------------ */

static const struct av_action actions[] = {
	{"set", set}, {"list", list}, {"clear", clear}, {NULL, NULL}};

static const char *device_name; /* NULL: all devices */

static int faults_main(int argc, char **argv)
{
	return av_act(&av_command_faults, actions, device_name, argc, argv);
}

static const struct av_option options[] = {{'d', "device", "DEVICE", &av_value_device, &device_name,
					    "use this device only, instead of all devices", NULL},
					   AV_JSON_OPTION(&json),
					   {.name = NULL}};

const struct av_command av_command_faults = {
	.name = "faults",
	.summary = "Inject faults: delays, losses, refusals, on demand and repeatably",
	.operands = "set|list|clear [RULE]...",
	.least = 1,
	.most = AV_ANY_NUMBER,
	.options = options,
	.details = "  set    replace all rules by these\n"
		   "  list   show the rules in force\n"
		   "  clear  remove all rules\n"
		   "\n"
		   "A RULE is one argument, such as 'rnr 3 qp 17 every 10'; anyverbs_faults(5)\n"
		   "describes the language. 'lose', 'rnr' and 'delay' strike requests; 'drop' and\n"
		   "its like strike packets, which only peers on other hosts send; 'fail' strikes\n"
		   "verbs, which 'anyverbs help fail' lists.\n"
		   "\n"
		   "Running programs are told of the change; programs started later get the rules\n"
		   "too, until they are cleared. To set rules for one program, use\n"
		   "ANYVERBS_FAULTS.\n",
	.examples = "anyverbs faults set 'lose 1%'\n"
		    "anyverbs faults list --json\n"
		    "anyverbs faults clear\n",
	.main = faults_main,
};
