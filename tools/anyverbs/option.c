/* SPDX-License-Identifier: MIT */
#include "option.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "help.h"

#define OPTIONS_MAX 16
#define LONG	    256 /* what getopt_long() calls the long option of row 0 */
#define TYPED_MAX   64

/* --- values ---------------------------------------------------------------------- */

static bool take_text(const char *text, void *to)
{
	*(const char **)to = text;
	return *text;
}

static bool take_number(const char *text, void *to)
{
	return av_word_number((struct av_word){text, strlen(text)}, 10, to);
}

static bool take_count(const char *text, void *to)
{
	return take_number(text, to) && *(uint64_t *)to > 0;
}

static bool take_seconds(const char *text, void *to)
{
	char *end;

	*(double *)to = strtod(text, &end);
	return end != text && !*end && *(double *)to >= 0.01 && *(double *)to <= 86400;
}

static bool take_bytes(const char *text, void *to)
{
	static const char units[] = "KMG";
	struct av_word digits = {text, strspn(text, "0123456789")};
	const char *unit = text[digits.len] ? strchr(units, text[digits.len]) : NULL;
	uint64_t number, factor = 1;

	if (text[digits.len] && (!unit || text[digits.len + 1]))
		return false;
	for (const char *u = units; unit && u <= unit; u++)
		factor *= 1000;
	return av_word_number(digits, 10, &number) && number > 0 &&
	       !__builtin_mul_overflow(number, factor, (uint64_t *)to);
}

const struct av_value av_value_device = {"a device", take_text};
const struct av_value av_value_file = {"a file", take_text};
const struct av_value av_value_number = {"a whole number", take_number};
const struct av_value av_value_count = {"a whole number from 1 on", take_count};
const struct av_value av_value_seconds = {"seconds, from 0.01 to 86400", take_seconds};
const struct av_value av_value_bytes = {"a number of bytes, such as 500M", take_bytes};

/* --- the command line ------------------------------------------------------------ */

static const struct av_option no_options[] = {{.name = NULL}};

static const struct av_option *options_of(const struct av_command *command)
{
	return command->options ? command->options : no_options;
}

/* Of the command whose line is read, for av_word_nearest(). */
static const struct av_option *known;

static const char *long_option(size_t i)
{
	return known[i].name;
}

/* For getopt_long(): long options have numbers of their own, so that it tells them from letters. */
static void describe(const struct av_command *command, char letters[3 * OPTIONS_MAX],
		     struct option names[OPTIONS_MAX + 2])
{
	const struct av_option *o = options_of(command);
	unsigned int i;
	char *at = letters;

	if (command->runs)
		*at++ = '+';
	*at++ = ':';
	*at++ = 'h';
	for (i = 0; o[i].name; i++) {
		int kind = !o[i].value	    ? no_argument
			   : o[i].otherwise ? optional_argument
					    : required_argument;

		names[i] = (struct option){o[i].name, kind, NULL, LONG + (int)i};
		for (int n = -1; o[i].letter && n < kind; n++)
			*at++ = n < 0 ? o[i].letter : ':';
	}
	*at = '\0';
	names[i] = (struct option){"help", no_argument, NULL, 'h'};
	names[i + 1] = (struct option){NULL, 0, NULL, 0};
}

/* The row of what getopt_long() has found; the last, without a name, if it knows none such. */
static const struct av_option *row_of(const struct av_option *o, int found)
{
	while (o->name && !(o->letter && found == o->letter) && found != LONG + (int)(o - known))
		o++;
	return o;
}

static const char *typed(const struct av_option *o, int found, char text[TYPED_MAX])
{
	if (found >= LONG)
		snprintf(text, TYPED_MAX, "--%s", o->name);
	else
		snprintf(text, TYPED_MAX, "-%c", found);
	return text;
}

static int unknown(const struct av_command *command, const char *word)
{
	char hint[AV_HINT_BYTES], name[TYPED_MAX], where[TYPED_MAX + 16];
	const char *nearest = NULL;

	snprintf(where, sizeof(where), "'anyverbs help %s' says more", command->name);
	if (optopt && optopt < LONG) {
		return av_tool_misuse(command, "there is no option '-%c'; %s", optopt, where);
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	nearest = av_word_nearest((struct av_word){name + 2, strlen(name + 2)}, long_option);
	if (nearest)
		snprintf(hint, sizeof(hint), "did you mean '--%s'?", nearest);
	return av_tool_misuse(command, "there is no option '%s'; %s", name, nearest ? hint : where);
}

static int refuse(const struct av_command *command, int found, const char *word)
{
	const struct av_option *o = row_of(known, optopt);
	char text[TYPED_MAX];

	if (!o->name)
		return unknown(command, word);
	typed(o, optopt, text);
	if (found == ':')
		return av_tool_misuse(command, "%s takes %s, but there is none", text,
				      o->value->wanted);
	return av_tool_misuse(command, "%s takes no value, but there is one: '%s'", text, word);
}

static int take(const struct av_command *command, int found)
{
	const struct av_option *o = row_of(known, found);
	const char *value = optarg ? optarg : o->otherwise;
	char text[TYPED_MAX];

	if (!o->value)
		*(bool *)o->to = true;
	else if (!o->value->take(value, o->to))
		return av_tool_misuse(command, "%s takes %s, not '%s'", typed(o, found, text),
				      o->value->wanted, value);
	return -1;
}

/* Copy word @which, from 0, of those that are not in brackets, into @word. */
static const char *needed_word(const char *text, unsigned int which, char word[TYPED_MAX])
{
	for (; *text; text += strcspn(text, " "), text += strspn(text, " "))
		if (*text != '[' && which-- == 0)
			break;
	snprintf(word, TYPED_MAX, "%.*s", (int)strcspn(text, " "), text);
	return word;
}

static int check_operands(const struct av_command *command, int argc, char **argv)
{
	unsigned int count = (unsigned int)argc;
	char word[TYPED_MAX];

	if (count < command->least)
		return av_tool_misuse(command, "an argument is missing: %s",
				      needed_word(command->operands, count, word));
	if (count > command->most)
		return av_tool_misuse(command, "'%s' is one argument too many",
				      argv[command->most]);
	return -1;
}

int av_options_read(const struct av_command *command, int argc, char **argv, int *first)
{
	struct option names[OPTIONS_MAX + 2];
	char letters[3 * OPTIONS_MAX];
	int status = -1, c;

	known = options_of(command);
	describe(command, letters, names);
	opterr = 0;
	while (status < 0 && (c = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		if (c == 'h') {
			av_help(command);
			return AV_EXIT_OK;
		}
		status = c == '?' || c == ':' ? refuse(command, c, argv[optind - 1])
					      : take(command, c);
	}
	*first = optind;
	return status < 0 ? check_operands(command, argc - optind, argv + optind) : status;
}

/* --- help ------------------------------------------------------------------------ */

static int write_head(const struct av_option *o, char *head, size_t size)
{
	char letter[8] = "    ", value[32] = "";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	if (o->value)
		snprintf(value, sizeof(value), o->otherwise ? "[=%s]" : " %s", o->argument);
	return snprintf(head, size, "  %s--%s%s", letter, o->name, value);
}

void av_options_help(FILE *out, const struct av_option *options)
{
	char head[80];
	int width = 0;

	for (const struct av_option *o = options; o->name; o++) {
		int n = write_head(o, head, sizeof(head));

		width = n > width ? n : width;
	}
	for (const struct av_option *o = options; o->name; o++) {
		const char *line = o->help, *end;

		write_head(o, head, sizeof(head));
		fprintf(out, "%-*s", width, head);
		for (; (end = strchr(line, '\n')); line = end + 1)
			fprintf(out, "  %.*s\n%*s", (int)(end - line), line, width, "");
		fprintf(out, "  %s\n", line);
	}
}
