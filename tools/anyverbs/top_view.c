/* SPDX-License-Identifier: MIT */
#include "top_view.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* The widths leave room for device and command on a terminal of 80 columns. */
const struct av_top_column_info av_top_column[AV_TOP_N] = {
	[AV_TOP_PID] = {"PID", 'p', 7, 0, "process", "pid"},
	[AV_TOP_QPS] = {"QPS", 'u', 5, 0, "queue pairs", "qps"},
	[AV_TOP_XMIT] = {"XMIT", 'x', 7, 1, "payload sent, MB/s", "xmit_mb_per_s"},
	[AV_TOP_RCV] = {"RCV", 'r', 7, 1, "payload received, MB/s", "rcv_mb_per_s"},
	[AV_TOP_MESSAGES] = {"MSGS", 'm', 8, 0, "messages per second, its own and those of others",
			     "messages_per_s"},
	[AV_TOP_FAULTS] = {"FAULTS", 'f', 6, 0, "page faults per second", "page_faults_per_s"},
	[AV_TOP_ERRORS] = {"ERRORS", 'e', 6, 0, "requests completed in error or refused, so far",
			   "errors"},
	[AV_TOP_REGISTERED] = {"REGMB", 'g', 7, 1, "registered memory, MB", "registered_mb"},
};

/*
 * The counters that a column sums up, their unit, and whether it shows growth per second or the
 * value.
 */
static const struct {
	const char *counter[3];
	double unit;
	bool rate;
} source[AV_TOP_N] = {
	[AV_TOP_QPS] = {{"qps"}, 1, false},
	[AV_TOP_XMIT] = {{"xmit_bytes"}, 1e6, true},
	[AV_TOP_RCV] = {{"rcv_bytes"}, 1e6, true},
	[AV_TOP_MESSAGES] = {{"requests", "served"}, 1, true},
	[AV_TOP_FAULTS] = {{"num_page_faults"}, 1, true},
	[AV_TOP_ERRORS] = {{"request_errors", "refused", "receive_errors"}, 1, false},
	[AV_TOP_REGISTERED] = {{"registered_bytes"}, 1e6, false},
};

static double sum_of(const struct av_column *column, unsigned int columns, enum av_top_column which,
		     const struct av_row *row)
{
	double sum = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(source[which].counter) && source[which].counter[i];
	     i++) {
		const struct av_column *c =
			av_column_find(column, columns, source[which].counter[i]);

		if (c)
			sum += (double)av_column_value(c, row);
	}
	return sum / source[which].unit;
}

/* The same row in an earlier look, or NULL. The first label identifies a row of a device. */
static const struct av_row *find(const struct av_rows *rows, const struct av_row *row)
{
	for (unsigned int i = 0; i < rows->count; i++)
		if (!strcmp(rows->list[i].device, row->device) &&
		    rows->list[i].label[0].number == row->label[0].number)
			return &rows->list[i];
	return NULL;
}

static void fill(struct av_top_row *to, unsigned int scope, const struct av_row *row,
		 const struct av_row *then, double seconds)
{
	struct av_column column[AV_COLUMNS_MAX];
	unsigned int columns = av_columns(scope, column);

	*to = (struct av_top_row){.device = row->device};
	for (int i = 0; i < AV_TOP_N; i++) {
		double is = sum_of(column, columns, i, row);

		if (i == AV_TOP_PID)
			continue;
		if (!source[i].rate)
			to->value[i] = is;
		else if (then && seconds > 0 && is > sum_of(column, columns, i, then))
			to->value[i] = (is - sum_of(column, columns, i, then)) / seconds;
	}
}

/* The command name, without characters that a terminal would interpret. */
static void name_of(int64_t pid, char command[17])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	f = fopen(path, "re");
	if (!f || !fgets(command, 17, f))
		memcpy(command, "-", sizeof("-"));
	if (f)
		fclose(f);
	command[strcspn(command, "\n")] = '\0';
	for (char *c = command; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
}

static bool grow(struct av_top_row **list, size_t count)
{
	struct av_top_row *grown = reallocarray(*list, count ? count : 1, sizeof(*grown));

	if (grown)
		*list = grown;
	return grown;
}

static void gather(const struct av_top_view *view, struct av_rows *processes,
		   struct av_rows *devices)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++) {
		if (view->only && view->only != list[i])
			continue;
		av_rows_add(processes, AV_SCOPE_PROCESS, list[i]);
		av_rows_add(devices, AV_SCOPE_DEVICE, list[i]);
	}
}

static void show(struct av_top_view *view, const struct av_rows *processes,
		 const struct av_rows *devices, double seconds)
{
	for (unsigned int i = 0; i < processes->count; i++) {
		const struct av_row *row = &processes->list[i];

		fill(&view->row[i], AV_SCOPE_PROCESS, row, find(&view->last, row), seconds);
		view->row[i].value[AV_TOP_PID] = (double)row->label[0].number;
		name_of(row->label[0].number, view->row[i].command);
	}
	for (unsigned int i = 0; i < devices->count; i++) {
		const struct av_row *row = &devices->list[i];

		fill(&view->device[i], AV_SCOPE_DEVICE, row, find(&view->last_device, row),
		     seconds);
		view->device[i].value[AV_TOP_PID] = (double)row->counted.gauge[AV_GAUGE_PROCESSES];
	}
	view->rows = processes->count;
	view->devices = devices->count;
}

bool av_top_look(struct av_top_view *view)
{
	struct av_rows processes = {0}, devices = {0};
	double moment = av_now_seconds();

	gather(view, &processes, &devices);
	if (processes.incomplete || devices.incomplete || !grow(&view->row, processes.count) ||
	    !grow(&view->device, devices.count)) {
		av_rows_free(&processes);
		av_rows_free(&devices);
		return false;
	}
	show(view, &processes, &devices, moment - view->moment);
	av_rows_free(&view->last);
	av_rows_free(&view->last_device);
	view->last = processes;
	view->last_device = devices;
	view->moment = moment;
	av_top_sort(view);
	return true;
}

/* By the chosen column, largest first (PIDs: smallest first), then by PID. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct av_top_row *x = a, *y = b;
	const struct av_top_view *view = arg;
	double d = y->value[view->sort] - x->value[view->sort];
	int order = (d > 0) - (d < 0);

	if (view->sort == AV_TOP_PID)
		order = -order;
	if (view->reverse)
		order = -order;
	return order ? order
		     : (x->value[AV_TOP_PID] > y->value[AV_TOP_PID]) -
			       (x->value[AV_TOP_PID] < y->value[AV_TOP_PID]);
}

void av_top_sort(struct av_top_view *view)
{
	qsort_r(view->row, view->rows, sizeof(*view->row), compare, view);
}

void av_top_end(struct av_top_view *view)
{
	free(view->row);
	free(view->device);
	av_rows_free(&view->last);
	av_rows_free(&view->last_device);
}

/* --- text ------------------------------------------------------------------------ */

void av_top_device_line(const struct av_top_row *device, unsigned int which, char *line,
			size_t size)
{
	const double *v = device->value;

	if (which == 0)
		snprintf(line, size,
			 "%s: %.0f processes, %.0f QPs, %.0f errors, %.1f MB registered",
			 device->device, v[AV_TOP_PID], v[AV_TOP_QPS], v[AV_TOP_ERRORS],
			 v[AV_TOP_REGISTERED]);
	else
		snprintf(line, size,
			 "  %.1f MB/s sent, %.1f MB/s received, %.0f msgs/s, %.0f faults/s",
			 v[AV_TOP_XMIT], v[AV_TOP_RCV], v[AV_TOP_MESSAGES], v[AV_TOP_FAULTS]);
}

/* Position after a write of @n characters at @at. @size: of the whole line. */
static size_t put(char *line, size_t at, size_t size, int n)
{
	return n < 0 || at + (size_t)n >= size ? size - 1 : at + (size_t)n;
}

void av_top_heading(char *line, size_t size)
{
	size_t at = 0;

	for (int i = 0; i < AV_TOP_N; i++)
		at = put(line, at, size,
			 snprintf(line + at, size - at, "%*s ", av_top_column[i].width,
				  av_top_column[i].heading));
	snprintf(line + at, size - at, "%-7s %s", "DEVICE", "COMMAND");
}

void av_top_line(const struct av_top_row *row, char *line, size_t size)
{
	size_t at = 0;

	for (int i = 0; i < AV_TOP_N; i++)
		at = put(line, at, size,
			 snprintf(line + at, size - at, "%*.*f ", av_top_column[i].width,
				  av_top_column[i].decimals, row->value[i]));
	snprintf(line + at, size - at, "%-7s %s", row->device, row->command);
}
