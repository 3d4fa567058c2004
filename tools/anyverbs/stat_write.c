/* SPDX-License-Identifier: MIT */
#include "stat_write.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- text ------------------------------------------------------------------------ */

void av_write_list(const struct av_column *column, unsigned int count, const struct av_row *row)
{
	size_t width = strlen("COUNTER"), unit = strlen("UNIT");

	for (unsigned int i = 0; i < count; i++) {
		if (strlen(column[i].name) > width)
			width = strlen(column[i].name);
		if (strlen(column[i].unit) > unit)
			unit = strlen(column[i].unit);
	}
	printf("%s\n  %-*s  %16s  %-*s  %s\n", row->device, (int)width, "COUNTER", "VALUE",
	       (int)unit, "UNIT", "MEANING");
	for (unsigned int i = 0; i < count; i++)
		printf("  %-*s  %16" PRIu64 "  %-*s  %s\n", (int)width, column[i].name,
		       av_column_value(&column[i], row), (int)unit, column[i].unit, column[i].help);
}

/* The counters shown in tables, for all scopes. More would make lines too long to read. */
static const char *const in_table[] = {
	"requests",
	"served",
	"xmit_bytes",
	"rcv_bytes",
	"request_errors",
	"refused",
	"rnr_naks_received",
	"posted",
	"completions",
	"completions_lost",
	"capacity",
	"waiting",
	"peak",
	"qps",
	"mrs",
	"registered_bytes",
	"num_page_faults",
};

static bool is_shown(const struct av_column *column)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(in_table); i++)
		if (!strcmp(in_table[i], column->name))
			return true;
	return false;
}

static void print_upper(const char *text, int width)
{
	char upper[32];
	size_t len = 0;

	for (; text[len] && len < sizeof(upper) - 1; len++)
		upper[len] = (char)toupper((unsigned char)text[len]);
	upper[len] = '\0';
	printf("  %*s", width, upper);
}

static int width_of(const char *name)
{
	return strlen(name) > 8 ? (int)strlen(name) : 8;
}

static int value_width(const char *name)
{
	return strlen(name) > 12 ? (int)strlen(name) : 12;
}

static void print_heading(const struct av_column *column, unsigned int count,
			  const struct av_row *row)
{
	printf("%s\n", row->device);
	for (unsigned int i = 0; i < row->labels; i++)
		print_upper(row->label[i].name, width_of(row->label[i].name));
	for (unsigned int i = 0; i < count; i++)
		if (is_shown(&column[i]))
			print_upper(column[i].name, value_width(column[i].name));
	putchar('\n');
}

void av_write_table(const struct av_column *column, unsigned int count, const struct av_row *row,
		    unsigned int rows)
{
	for (const struct av_row *r = row; r < row + rows; r++) {
		if (r == row || strcmp(r->device, r[-1].device))
			print_heading(column, count, r);
		for (unsigned int i = 0; i < r->labels; i++) {
			const struct av_label *l = &r->label[i];

			if (l->text)
				printf("  %*s", width_of(l->name), l->text);
			else
				printf("  %*" PRId64, width_of(l->name), l->number);
		}
		for (unsigned int i = 0; i < count; i++)
			if (is_shown(&column[i]))
				printf("  %*" PRIu64, value_width(column[i].name),
				       av_column_value(&column[i], r));
		putchar('\n');
	}
}

/* --- JSON ------------------------------------------------------------------------ */

json_t *av_json_list(const struct av_column *column, unsigned int count, const struct av_row *row)
{
	json_t *list = json_array();

	for (unsigned int i = 0; list && i < count; i++) {
		json_t *one =
			json_pack("{s:s, s:I, s:s, s:b, s:s}", "counter", column[i].name, "value",
				  (json_int_t)av_column_value(&column[i], row), "unit",
				  column[i].unit, "gauge", column[i].gauge, "help", column[i].help);

		if (json_array_append_new(list, one)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *av_json_row(const struct av_column *column, unsigned int count, const struct av_row *row)
{
	json_t *object = json_object();
	int failed = !object;

	for (unsigned int i = 0; i < row->labels && !failed; i++) {
		const struct av_label *l = &row->label[i];

		failed = json_object_set_new(
			object, l->name, l->text ? json_string(l->text) : json_integer(l->number));
	}
	for (unsigned int i = 0; i < count && !failed; i++)
		failed = json_object_set_new(
			object, column[i].name,
			json_integer((json_int_t)av_column_value(&column[i], row)));
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

/* --- Prometheus ------------------------------------------------------------------ */

/*
 * In a label's value, backslash, quotation mark and newline are escaped. In a help text only
 * backslash and newline would be, and ours contain neither.
 */
static void print_label(const char *name, const char *value)
{
	printf("%s=\"", name);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			putchar('\\');
		if (*value == '\n')
			fputs("\\n", stdout);
		else
			putchar(*value);
	}
	putchar('"');
}

static void print_sample(const char *scope, const struct av_column *column,
			 const struct av_row *row)
{
	char number[24];

	printf("anyverbs_%s_%s%s{", scope, column->name, column->gauge ? "" : "_total");
	print_label("device", row->device);
	for (unsigned int i = 0; i < row->labels; i++) {
		if (!row->label[i].identity)
			continue;
		snprintf(number, sizeof(number), "%" PRId64, row->label[i].number);
		putchar(',');
		print_label(row->label[i].name, row->label[i].text ? row->label[i].text : number);
	}
	printf("} %" PRIu64 "\n", av_column_value(column, row));
}

void av_write_prometheus(const char *scope, const struct av_column *column, unsigned int count,
			 const struct av_rows *rows)
{
	for (unsigned int i = 0; i < count && rows->count; i++) {
		const char *suffix = column[i].gauge ? "" : "_total";

		printf("# HELP anyverbs_%s_%s%s %s.\n# TYPE anyverbs_%s_%s%s %s\n", scope,
		       column[i].name, suffix, column[i].help, scope, column[i].name, suffix,
		       column[i].gauge ? "gauge" : "counter");
		for (unsigned int r = 0; r < rows->count; r++)
			print_sample(scope, &column[i], &rows->list[r]);
	}
}
