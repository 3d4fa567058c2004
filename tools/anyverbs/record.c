/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* --- writing --------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && !strcmp(text + len - n, end);
}

bool av_record_open(struct av_record *record, const char *path)
{
	record->json =
		ends_with(path, ".json") || ends_with(path, ".jsonl") || ends_with(path, ".ndjson");
	record->begun = false;
	record->file = fopen(path, "we");
	return record->file;
}

static void write_names(FILE *f, const struct av_column *column, unsigned int count)
{
	fputs("time,device", f);
	for (unsigned int i = 0; i < count; i++)
		fprintf(f, ",%s", column[i].name);
	fputc('\n', f);
}

/* No escaping: names of devices and counters consist of letters, digits, '_' and '-'. */
static void write_json(FILE *f, double time, const struct av_column *column, unsigned int count,
		       const struct av_row *row)
{
	fprintf(f, "{\"time\":%.3f,\"device\":\"%s\"", time, row->device);
	for (unsigned int i = 0; i < count; i++)
		fprintf(f, ",\"%s\":%" PRIu64, column[i].name, av_column_value(&column[i], row));
	fputs("}\n", f);
}

bool av_record_write(struct av_record *record, double time, const struct av_column *column,
		     unsigned int count, const struct av_row *row)
{
	if (record->json) {
		write_json(record->file, time, column, count, row);
	} else {
		if (!record->begun)
			write_names(record->file, column, count);
		fprintf(record->file, "%.3f,%s", time, row->device);
		for (unsigned int i = 0; i < count; i++)
			fprintf(record->file, ",%" PRIu64, av_column_value(&column[i], row));
		fputc('\n', record->file);
	}
	record->begun = true;
	return fflush(record->file) == 0; /* whoever kills us still finds whole lines */
}

bool av_record_close(struct av_record *record)
{
	bool failed = ferror(record->file);

	return (fclose(record->file) == 0) && !failed;
}

/* --- reading --------------------------------------------------------------------- */

#define YEAR_10000 253402300800.0 /* seconds since 1970; times have a date before it */

struct reader {
	const char *const *name;
	unsigned int count;
	int place[AV_COLUMNS_MAX]; /* column of each wanted counter in a CSV line; -1: missing */
	bool has_names;
};

static void note_names(struct reader *r, char *line)
{
	int place = 0;
	char *rest = line, *word;

	for (unsigned int i = 0; i < r->count; i++)
		r->place[i] = -1;
	for (; (word = strsep(&rest, ",")); place++)
		for (unsigned int i = 0; i < r->count; i++)
			if (!strcmp(word, r->name[i]))
				r->place[i] = place;
	r->has_names = true;
}

static bool number_of(const char *word, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(word, &end);
	return end != word && !*end && !errno && *value >= 0 && *value < 1e300;
}

static bool read_csv(const struct reader *r, char *line, struct av_recorded *to)
{
	char *rest = line, *word;
	double value;

	for (int place = 0; (word = strsep(&rest, ",")); place++) {
		if (place == 1) {
			snprintf(to->device, sizeof(to->device), "%s", word);
			continue;
		}
		if (!number_of(word, &value))
			return false;
		if (place == 0)
			to->time = value;
		for (unsigned int i = 0; i < r->count; i++)
			if (r->place[i] == place)
				to->value[i] = value;
	}
	return to->device[0];
}

static bool read_json(const struct reader *r, const char *line, struct av_recorded *to)
{
	json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	const char *device = json_string_value(json_object_get(object, "device"));
	json_t *time = json_object_get(object, "time");
	bool ok = device && json_is_number(time);

	if (ok) {
		to->time = json_number_value(time);
		snprintf(to->device, sizeof(to->device), "%s", device);
	}
	for (unsigned int i = 0; i < r->count; i++)
		to->value[i] = json_number_value(json_object_get(object, r->name[i]));
	json_decref(object);
	return ok;
}

static bool read_line(struct reader *r, char *line, struct av_recorded *to)
{
	bool ok;

	*to = (struct av_recorded){0};
	if (line[0] == '{')
		ok = read_json(r, line, to);
	else
		ok = r->has_names && read_csv(r, line, to);
	return ok && to->time >= 0 && to->time < YEAR_10000;
}

const char *av_record_read(FILE *file, const char *const *name, unsigned int count,
			   struct av_recorded **list, size_t *rows)
{
	struct reader reader = {.name = name, .count = count};
	struct av_recorded *grown;
	const char *wrong = NULL;
	size_t room = 0, size = 0;
	char *line = NULL;

	*list = NULL;
	*rows = 0;
	while (!wrong && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!strncmp(line, "time,device,", strlen("time,device,"))) {
			note_names(&reader, line);
			continue;
		}
		if (*rows == room) {
			room = room * 2 + 64;
			grown = reallocarray(*list, room, sizeof(*grown));
			if (!grown) {
				wrong = "out of memory";
				break;
			}
			*list = grown;
		}
		if (!read_line(&reader, line, &(*list)[*rows]))
			wrong = "it is not a recording of 'anyverbs stat --watch'";
		else
			++*rows;
	}
	free(line);
	if (!wrong && ferror(file))
		wrong = "it cannot be read";
	return wrong;
}
