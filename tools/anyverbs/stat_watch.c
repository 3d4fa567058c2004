/* SPDX-License-Identifier: MIT */
#include "stat_watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "command.h"
#include "record.h"
#include "stat_rows.h"

/* What is shown: a counter's growth per second, or a gauge's value, in units of @unit. */
static const struct {
	const char *heading, *counter, *member;
	double unit;
} shown[] = {
	{"XMIT MB/s", "xmit_bytes", "xmit_mb_per_s", 1e6},
	{"RCV MB/s", "rcv_bytes", "rcv_mb_per_s", 1e6},
	{"REQUESTS/s", "requests", "requests_per_s", 1},
	{"SERVED/s", "served", "served_per_s", 1},
	{"FAULTS/s", "num_page_faults", "page_faults_per_s", 1},
	{"INVALID/s", "num_invalidations", "invalidations_per_s", 1},
	{"ERRORS/s", "request_errors", "request_errors_per_s", 1},
	{"QPS", "qps", "qps", 1},
	{"REG MB", "registered_bytes", "registered_mb", 1e6},
};

struct watching {
	const struct av_watch *watch;
	struct av_column column[AV_COLUMNS_MAX];
	unsigned int columns;
	struct av_record record;
	double before; /* time of the last look */
	struct av_rows last;
	bool failed;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = 1;
}

static double rate(const struct watching *w, size_t i, const struct av_row *then,
		   const struct av_row *row, double seconds)
{
	const struct av_column *c = av_column_find(w->column, w->columns, shown[i].counter);
	double a = c ? (double)av_column_value(c, then) : 0,
	       b = c ? (double)av_column_value(c, row) : 0;

	if (c && c->gauge)
		return b / shown[i].unit;
	/* A counter starts again from 0 when the device is reset. */
	return seconds > 0 && b > a ? (b - a) / seconds / shown[i].unit : 0;
}

static void print_headings(void)
{
	printf("%-8s  %-12s", "TIME", "DEVICE");
	for (size_t i = 0; i < AV_ARRAY_SIZE(shown); i++)
		printf("  %10s", shown[i].heading);
	putchar('\n');
}

static void print_json(const struct watching *w, const struct av_row *then,
		       const struct av_row *row, double seconds, double time)
{
	printf("{\"time\":%.3f,\"device\":\"%s\"", time, row->device);
	for (size_t i = 0; i < AV_ARRAY_SIZE(shown); i++)
		printf(",\"%s\":%.3f", shown[i].member, rate(w, i, then, row, seconds));
	puts("}");
}

static void print_rates(const struct watching *w, const struct av_row *then,
			const struct av_row *row, double seconds, double time)
{
	time_t at = (time_t)time;
	struct tm tm;
	char clock[16];

	localtime_r(&at, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	printf("%-8s  %-12s", clock, row->device);
	for (size_t i = 0; i < AV_ARRAY_SIZE(shown); i++) {
		double value = rate(w, i, then, row, seconds);

		printf("  %10.*f", shown[i].unit > 1 ? 1 : 0, value);
	}
	putchar('\n');
}

/* Sample all devices once. Return: false if writing fails or memory runs out. */
static bool look(struct watching *w, struct av_device *const *devs, unsigned int count)
{
	double moment = av_now_seconds(), time = (double)av_now_real_ns() / 1e9;
	struct av_rows rows = {0};

	for (unsigned int i = 0; i < count; i++)
		av_rows_add(&rows, AV_SCOPE_DEVICE, devs[i]);
	if (rows.incomplete)
		return false;
	for (unsigned int i = 0; i < rows.count; i++) {
		if (w->record.file &&
		    !av_record_write(&w->record, time, w->column, w->columns, &rows.list[i]))
			w->failed = true;
		if (!w->last.count)
			continue;
		if (w->watch->json)
			print_json(w, &w->last.list[i], &rows.list[i], moment - w->before, time);
		else
			print_rates(w, &w->last.list[i], &rows.list[i], moment - w->before, time);
	}
	av_rows_free(&w->last);
	w->last = rows;
	w->before = moment;
	return !w->failed && fflush(stdout) == 0;
}

static void rest(double seconds)
{
	struct timespec t = {.tv_sec = (time_t)seconds};

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	if (!stopped)
		(void)nanosleep(&t, NULL); /* a signal ends the sleep, and then us */
}

static bool go_on(struct watching *w, struct av_device *const *devs, unsigned int count)
{
	bool ok = look(w, devs, count);

	for (uint64_t n = 0; ok && !stopped && (!w->watch->looks || n < w->watch->looks); n++) {
		rest(w->watch->seconds);
		if (!w->watch->json && n % 20 == 0)
			print_headings();
		ok = look(w, devs, count);
	}
	return ok;
}

int av_stat_watch(const struct av_watch *watch, struct av_device *const *devs, unsigned int count)
{
	struct sigaction on_signal = {.sa_handler = stop};
	struct watching w = {.watch = watch};
	bool ok;

	w.columns = av_columns(AV_SCOPE_DEVICE, w.column);
	if (watch->output && !av_record_open(&w.record, watch->output)) {
		av_tool_complain("cannot write to %s: %s", watch->output, strerror(errno));
		return AV_EXIT_NO;
	}
	sigaction(SIGINT, &on_signal, NULL);
	sigaction(SIGTERM, &on_signal, NULL);
	ok = go_on(&w, devs, count);
	av_rows_free(&w.last);
	if (w.record.file && !av_record_close(&w.record))
		ok = false;
	return ok ? AV_EXIT_OK : av_tool_unwritten();
}
