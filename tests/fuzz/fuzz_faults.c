/* SPDX-License-Identifier: MIT */
/*
 * Any text as rules of faults. What is refused says where, inside the text; what is understood is
 * understood again, rule by rule, from the places where its rules are written.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/check.h"
#include "observe/faults.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const char *text, const struct av_faults_error *error)
{
	CHECK(error->line >= 1 && error->column >= 1 && error->column <= strlen(text) + 1);
	CHECK(error->text[0] && memchr(error->text, '\0', sizeof(error->text)));
}

/* One rule alone: its seed and number come from around it. */
static void check_rule(const char *text, const struct av_faults_rule *rule)
{
	static struct av_faults_rule again[AV_FAULTS_RULES];
	struct av_faults_error error;
	char *alone = strndup(text + rule->at, rule->len);

	CHECK(alone && rule->len > 0 && rule->at + rule->len <= strlen(text));
	CHECK(av_faults_parse(alone, again, &error) == 1);
	again[0].at = rule->at;
	again[0].number = rule->number;
	again[0].seed = rule->seed;
	CHECK(memcmp(&again[0], rule, sizeof(*rule)) == 0);
	CHECK(again[0].parts >= 1 && again[0].parts <= AV_FAULTS_CERTAIN);
	free(alone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	struct av_faults_error error = {.text = ""};
	char *text = strndup((const char *)data, size);
	int n = text ? av_faults_parse(text, rules, &error) : 0;

	if (n < 0)
		check_error(text, &error);
	for (int i = 0; i < n; i++)
		check_rule(text, &rules[i]);
	free(text);
	return 0;
}
