/* SPDX-License-Identifier: MIT */
#include "plot_svg.h"

#include <math.h>
#include <stdbool.h>

#include "base/compiler.h"

#define WIDTH  800
#define LEFT   80
#define RIGHT  20
#define TOP    40 /* above the first panel */
#define HEIGHT 140
#define GAP    50 /* below each panel, for its time axis */
#define TICKS  5

/* The second line is dashed: where it covers the first, both are seen. */
static const struct {
	const char *colour, *dashes;
} styles[AV_SVG_SERIES] = {{"#1f5fa8", "none"}, {"#c8511b", "6 6"}};

/* A recording may hold bytes that XML may not. */
static void put_text(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text == '<' || *text == '>' || *text == '&')
			fprintf(out, "&#%d;", *text);
		else
			fputc(*text < ' ' || *text > '~' ? '?' : *text, out);
}

void av_svg_begin(FILE *out, const char *title, unsigned int panels)
{
	unsigned int height = TOP + panels * (HEIGHT + GAP);

	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" viewBox=\"0 "
		"0 %d %u\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"%d\" y=\"18\" font-size=\"14\" font-weight=\"bold\">",
		WIDTH, height, WIDTH, height, LEFT);
	put_text(out, title);
	fputs("</text>\n", out);
}

/* A round step, 1, 2 or 5 times a power of ten, of which at most TICKS reach @most. */
static double step_for(double most)
{
	static const double digits[] = {1, 2, 5};
	double power = pow(10, floor(log10(most / TICKS)));

	for (size_t i = 0; i < AV_ARRAY_SIZE(digits); i++)
		if (digits[i] * power * TICKS >= most)
			return digits[i] * power;
	return 10 * power;
}

/* The end of an axis that holds @most, and the distance between its marks. */
static double axis(double most, double *step)
{
	*step = step_for(most > 0 ? most : 1);
	return *step * ceil((most > 0 ? most : 1) / *step);
}

static void put_marks(FILE *out, double top, double seconds, double x_step, double most,
		      double y_step)
{
	double width = WIDTH - LEFT - RIGHT;

	for (unsigned int i = 0; i * y_step <= most * 1.0001; i++) {
		double y = i * y_step, at = top + HEIGHT - HEIGHT * y / most;

		fprintf(out,
			"<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text "
			"x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n",
			LEFT, WIDTH - RIGHT, at, at, LEFT - 6, at + 4, y);
	}
	for (unsigned int i = 0; i * x_step <= seconds * 1.0001; i++)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.10g s</text>\n",
			LEFT + width * i * x_step / seconds, top + HEIGHT + 16, i * x_step);
}

static void begin_line(FILE *out, unsigned int number)
{
	fprintf(out,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-dasharray=\"%s\" "
		"stroke-width=\"1.5\" points=\"",
		styles[number].colour, styles[number].dashes);
}

static void end_line(FILE *out)
{
	fputs("\"/>\n", out);
}

/* A line for each row of points with values. */
static void put_lines(FILE *out, const struct av_series *s, unsigned int number, double top,
		      double seconds, double most)
{
	double width = WIDTH - LEFT - RIGHT;
	bool begun = false;

	for (size_t i = 0; i < s->count; i++) {
		bool there = !isnan(s->point[i].y);

		if (there && !begun)
			begin_line(out, number);
		if (there)
			fprintf(out, "%s%.1f,%.1f", begun ? " " : "",
				LEFT + width * s->point[i].x / seconds,
				top + HEIGHT - HEIGHT * s->point[i].y / most);
		else if (begun)
			end_line(out);
		begun = there;
	}
	if (begun)
		end_line(out);
}

static void put_series(FILE *out, const struct av_series *s, unsigned int number, double top,
		       double seconds, double most)
{
	put_lines(out, s, number, top, seconds, most);
	fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"%s\">",
		WIDTH - RIGHT - 90 * (int)number, top - 6, styles[number].colour);
	put_text(out, s->name);
	fputs("</text>\n", out);
}

void av_svg_panel(FILE *out, unsigned int number, const char *title, double seconds,
		  const struct av_series *series, unsigned int count)
{
	double top = TOP + number * (HEIGHT + GAP), most = 0, x_step, y_step;

	for (unsigned int s = 0; s < count; s++)
		for (size_t i = 0; i < series[s].count; i++)
			most = series[s].point[i].y > most ? series[s].point[i].y : most;
	most = axis(most, &y_step);
	seconds = axis(seconds, &x_step);
	fprintf(out, "<text x=\"%d\" y=\"%.1f\">", LEFT, top - 6);
	put_text(out, title);
	fputs("</text>\n", out);
	put_marks(out, top, seconds, x_step, most, y_step);
	for (unsigned int s = 0; s < count && s < AV_SVG_SERIES; s++)
		put_series(out, &series[s], s, top, seconds, most);
}

void av_svg_end(FILE *out)
{
	fputs("</svg>\n", out);
}
