/* SPDX-License-Identifier: MIT */
/* "anyverbs plot": draws a recording of "anyverbs stat --watch". */
#include "command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plot_svg.h"
#include "record.h"

static const char *const counters[] = {"xmit_bytes", "rcv_bytes", "num_page_faults",
				       "num_invalidations"};

/* The panels, top to bottom: growth rates of these counters. */
static const struct panel {
	const char *title, *nothing; /* @nothing: what there was none of, if there was none */
	bool bytes;		     /* in a unit that suits the most of them */
	unsigned int count;
	struct {
		const char *name;
		int counter;
	} line[AV_SVG_SERIES];
} panels[] = {
	{"bandwidth", "traffic", true, 2, {{"sent", 0}, {"received", 1}}},
	{"page faults per second", "page faults", false, 1, {{"page faults", 2}}},
	{"invalidations per second", "invalidations", false, 1, {{"invalidations", 3}}},
};

static const struct {
	double bytes;
	const char *name;
} units[] = {{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}};

struct input {
	struct av_recorded *row;
	size_t rows;
	const char *device; /* the device to draw */
};

/*
 * Growth rates of a counter between consecutive lines. @to: room for in->rows points. Return:
 * number of points.
 */
static size_t rates(const struct input *in, int counter, struct av_point *to)
{
	const struct av_recorded *then = NULL;
	size_t n = 0;

	for (const struct av_recorded *r = in->row; r < in->row + in->rows; r++) {
		double grown;

		if (strcmp(r->device, in->device))
			continue;
		grown = then ? r->value[counter] - then->value[counter] : 0;
		if (then && r->time > then->time) /* a counter falls when the device is reset */
			to[n++] = (struct av_point){r->time - in->row[0].time,
						    grown < 0 ? (double)NAN
							      : grown / (r->time - then->time)};
		then = r;
	}
	return n;
}

/* A panel's lines. */
struct drawing {
	struct av_series series[AV_SVG_SERIES];
	double most;
};

static void measure(const struct input *in, const struct panel *p, struct av_point *room,
		    struct drawing *d)
{
	*d = (struct drawing){.most = 0};
	for (unsigned int i = 0; i < p->count; i++) {
		struct av_series *s = &d->series[i];

		*s = (struct av_series){.name = p->line[i].name, .point = room + i * in->rows};
		s->count = rates(in, p->line[i].counter, s->point);
		for (size_t n = 0; n < s->count; n++)
			d->most = s->point[n].y > d->most ? s->point[n].y : d->most;
	}
}

/* Give bytes a unit. Return: its name */
static const char *scale(const struct panel *p, struct drawing *d)
{
	size_t unit = 0;

	while (unit + 1 < AV_ARRAY_SIZE(units) && d->most < units[unit].bytes)
		unit++;
	for (unsigned int i = 0; i < p->count; i++)
		for (size_t n = 0; n < d->series[i].count; n++)
			d->series[i].point[n].y /= units[unit].bytes;
	return units[unit].name;
}

static void draw_panel(FILE *out, const struct input *in, unsigned int number,
		       const struct panel *p, struct drawing *d)
{
	double seconds = in->row[in->rows - 1].time - in->row[0].time;
	char title[64];

	if (p->bytes)
		snprintf(title, sizeof(title), "%s, %s", p->title, scale(p, d));
	else
		snprintf(title, sizeof(title), "%s", p->title);
	av_svg_panel(out, number, title, seconds, d->series, p->count);
}

/* When it was, and what there was none of, for which there is no panel. */
static void put_title(FILE *out, const struct input *in, const struct drawing *drawing,
		      unsigned int shown)
{
	time_t begin = (time_t)in->row[0].time;
	char title[256], when[40];
	struct tm tm;
	size_t n;

	strftime(when, sizeof(when), "%e %B %Y, %H:%M:%S UTC", gmtime_r(&begin, &tm));
	n = (size_t)snprintf(title, sizeof(title), "%s from %s on", in->device,
			     when + (when[0] == ' '));
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(panels) && n < sizeof(title); i++)
		if (drawing[i].most == 0)
			n += (size_t)snprintf(title + n, sizeof(title) - n, "; no %s",
					      panels[i].nothing);
	av_svg_begin(out, title, shown);
}

static bool draw(FILE *out, const struct input *in)
{
	const size_t each = in->rows * AV_SVG_SERIES;
	struct av_point *room = calloc(each * AV_ARRAY_SIZE(panels), sizeof(*room));
	struct drawing drawing[AV_ARRAY_SIZE(panels)];
	unsigned int shown = 0, number = 0;

	if (!room)
		return false;
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(panels); i++) {
		measure(in, &panels[i], room + i * each, &drawing[i]);
		shown += drawing[i].most > 0;
	}
	put_title(out, in, drawing, shown);
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(panels); i++)
		if (drawing[i].most > 0)
			draw_panel(out, in, number++, &panels[i], &drawing[i]);
	av_svg_end(out);
	free(room);
	return true;
}

static int complain_of(const char *path, const char *why)
{
	av_tool_complain("%s: %s", path, why);
	return AV_EXIT_NO;
}

/* @wanted: NULL: the first one in the recording */
static int read_input(const char *path, const char *wanted, struct input *in)
{
	FILE *f = fopen(path, "re");
	const char *wrong;
	bool there = false;

	if (!f)
		return complain_of(path, strerror(errno));
	wrong = av_record_read(f, counters, AV_ARRAY_SIZE(counters), &in->row, &in->rows);
	fclose(f);
	if (wrong)
		return complain_of(path, wrong);
	if (in->rows < 2)
		return complain_of(path, "nothing to draw yet: a picture needs two samples");
	in->device = wanted ? wanted : in->row[0].device;
	for (size_t i = 0; i < in->rows; i++)
		there |= !strcmp(in->row[i].device, in->device);
	if (there)
		return AV_EXIT_OK;
	av_tool_complain("%s: there is no device '%s' in it, but '%s'", path, wanted,
			 in->row[0].device);
	return AV_EXIT_NO;
}

static int write_output(const char *path, const struct input *in)
{
	FILE *out = path ? fopen(path, "we") : stdout;
	bool ok;

	if (!out)
		return complain_of(path, strerror(errno));
	ok = draw(out, in) && !ferror(out);
	if (path)
		ok = fclose(out) == 0 && ok;
	return ok ? AV_EXIT_OK : complain_of(path ? path : "standard output", "cannot be written");
}

static const char *output, *device;

static int plot_main(int argc, char **argv)
{
	struct input in = {0};
	int status = read_input(argv[0], device, &in);

	(void)argc;
	if (status == AV_EXIT_OK)
		status = write_output(output, &in);
	free(in.row);
	return status;
}

static const struct av_option options[] = {
	{'o', "output", "PICTURE", &av_value_file, &output,
	 "write the picture, SVG, here, not to standard output", NULL},
	{'d', "device", "DEVICE", &av_value_device, &device,
	 "draw this device instead of the first in the recording", NULL},
	{.name = NULL}};

const struct av_command av_command_plot = {
	.name = "plot",
	.summary = "Draw a recording of 'anyverbs stat --watch -o FILE'",
	.operands = "FILE",
	.least = 1,
	.most = 1,
	.options = options,
	.details = "Shows bandwidth, page faults and invalidations over time.\n",
	.examples = "anyverbs stat --watch=0.2 -n 5 -o record.csv any0\n"
		    "anyverbs plot record.csv -o record.svg\n",
	.main = plot_main,
};
