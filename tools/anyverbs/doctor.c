/* SPDX-License-Identifier: MIT */
/*
 * "anyverbs doctor": what this machine allows, and what that means. This file runs the checks and
 * prints their findings.
 */
#include "command.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "colour.h"
#include "doctor.h"
#include "json_out.h"

static bool json;

static const char *const verdict_names[] = {
	[AV_VERDICT_OK] = "ok",
	[AV_VERDICT_LIMITED] = "limited",
	[AV_VERDICT_MISSING] = "missing",
};

static const struct doctor_check *const tables[] = {doctor_checks_process, doctor_checks_memory,
						    doctor_checks_heap, doctor_checks_network,
						    doctor_checks_system};

void av_finding_value(struct av_finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->value, sizeof(finding->value), fmt, ap);
	va_end(ap);
}

void av_finding_set(struct av_finding *finding, enum av_verdict verdict, const char *consequence,
		    const char *advice)
{
	finding->verdict = verdict;
	snprintf(finding->consequence, sizeof(finding->consequence), "%s", consequence);
	snprintf(finding->advice, sizeof(finding->advice), "%s", advice);
}

const char *av_read_line(const char *path, char *text, int size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(text, size, f))
		text[0] = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void print_text(const struct doctor_check *check, const struct av_finding *finding)
{
	static const enum av_colour colours[] = {
		[AV_VERDICT_OK] = AV_COLOUR_GOOD,
		[AV_VERDICT_LIMITED] = AV_COLOUR_WARNING,
		[AV_VERDICT_MISSING] = AV_COLOUR_BAD,
	};

	printf("%s%-7s%s  %s: %s\n         %s\n", av_colour(stdout, colours[finding->verdict]),
	       verdict_names[finding->verdict], av_colour(stdout, AV_COLOUR_OFF), check->title,
	       finding->value, finding->consequence);
	if (finding->advice[0])
		printf("         Advice: %s\n", finding->advice);
}

static int add_json(json_t *list, const struct doctor_check *check,
		    const struct av_finding *finding)
{
	json_t *row =
		json_pack("{s:s, s:s, s:o, s:b, s:o, s:s}", "check", check->id, "finding",
			  verdict_names[finding->verdict], "value", av_json_text(finding->value),
			  "essential", check->essential, "consequence",
			  av_json_text(finding->consequence), "advice", finding->advice);

	return json_array_append_new(list, row);
}

/* @list: NULL for text output. Return: false if something essential is missing. */
static bool go_through(const struct doctor_check *check, json_t *list, bool *whole)
{
	bool fine = true;

	for (; check->id; check++) {
		struct av_finding finding = {.verdict = AV_VERDICT_OK};

		check->look(&finding);
		if (!list)
			print_text(check, &finding);
		else if (add_json(list, check, &finding))
			*whole = false;
		if (check->essential && finding.verdict == AV_VERDICT_MISSING)
			fine = false;
	}
	return fine;
}

static void print_end(bool fine)
{
	puts(fine ? "\nNothing essential is missing."
		  : "\nSomething essential is missing: see the lines that begin with \"missing\".");
}

/* Takes over @list; NULL: out of memory. Return: exit status, of writing */
static int write_json(json_t *list, bool fine)
{
	return av_json_write_object(list ? json_pack("{s:s, s:b, s:o}", "version", AV_VERSION, "ok",
						     fine, "checks", list)
					 : NULL);
}

static int examine(void)
{
	json_t *list = json ? json_array() : NULL;
	bool fine = true, whole = !json || list;
	int status = AV_EXIT_OK;

	for (size_t i = 0; whole && i < AV_ARRAY_SIZE(tables); i++)
		fine &= go_through(tables[i], list, &whole);
	if (!whole) {
		json_decref(list);
		list = NULL;
	}
	if (json)
		status = write_json(list, fine);
	else
		print_end(fine);
	return fine ? status : AV_EXIT_NO;
}

static int doctor_main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	setenv("ANYVERBS_LOG", "off", 0); /* the findings replace the library's warnings */
	return examine();
}

static const struct av_option options[] = {AV_JSON_OPTION(&json), {.name = NULL}};

const struct av_command av_command_doctor = {
	.name = "doctor",
	.summary = "Say what this machine allows, and what that means",
	.operands = "",
	.options = options,
	.details = "Run it where the programs run: as the same user, in the same container.\n"
		   "Exit status 0 if nothing essential is missing, otherwise 1.\n",
	.examples = "anyverbs doctor\n"
		    "anyverbs doctor --json\n",
	.main = doctor_main,
};
