/* SPDX-License-Identifier: MIT */
/* Draws values over time as SVG: panels, one below the other. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#define AV_SVG_SERIES 2 /* most series in one panel */

struct av_point {
	double x, y; /* seconds from the start, and a value >= 0; NAN: the line breaks here */
};

struct av_series {
	const char *name;
	struct av_point *point;
	size_t count;
};

/*
 * Titles and names may be any text; they are escaped. @number: of the panel, from 0. @seconds:
 * length of its time axis. Check ferror(@out) for write errors.
 */
void av_svg_begin(FILE *out, const char *title, unsigned int panels);
void av_svg_panel(FILE *out, unsigned int number, const char *title, double seconds,
		  const struct av_series *series, unsigned int count);
void av_svg_end(FILE *out);
