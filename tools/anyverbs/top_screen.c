/* SPDX-License-Identifier: MIT */
/* "anyverbs top" on a terminal. */
#include <curses.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "command.h"
#include "top_view.h"

#define LINE_BYTES 512

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = 1;
}

struct screen {
	struct av_top_view *view;
	size_t scroll; /* index of the first process shown */
	bool help;
};

static void put_line(int y, attr_t how, const char *text)
{
	if (y >= LINES)
		return;
	attrset(how);
	mvaddnstr(y, 0, text, COLS);
	clrtoeol();
	attrset(A_NORMAL);
}

static int draw_head(const struct screen *s)
{
	const struct av_top_column_info *by = &av_top_column[s->view->sort];
	char line[LINE_BYTES], clock[16];
	time_t at = time(NULL);
	struct tm tm;
	int y = 0;

	localtime_r(&at, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	snprintf(line, sizeof(line), "anyverbs top - %s, by %s%s; h: help, q: quit", clock,
		 by->heading, s->view->reverse ? " (smallest first)" : "");
	put_line(y++, A_BOLD, line);
	for (size_t i = 0; i < s->view->devices; i++)
		for (unsigned int n = 0; n < AV_TOP_DEVICE_LINES; n++) {
			av_top_device_line(&s->view->device[i], n, line, sizeof(line));
			put_line(y++, A_NORMAL, line);
		}
	av_top_heading(line, sizeof(line));
	put_line(y++, A_REVERSE, line);
	return y;
}

static int draw_help(int y)
{
	char line[LINE_BYTES];

	for (int i = 0; i < AV_TOP_N; i++) {
		snprintf(line, sizeof(line), "  %c  sort by %s: %s", av_top_column[i].key,
			 av_top_column[i].heading, av_top_column[i].help);
		put_line(y++, A_NORMAL, line);
	}
	put_line(y++, A_NORMAL,
		 "  R  reverse the order     d  next device, or all   SPACE  look now");
	put_line(y++, A_NORMAL, "  UP, DOWN  scroll         h  this help              q  quit");
	return y;
}

static int draw_processes(struct screen *s, int y)
{
	char line[LINE_BYTES];

	if (s->scroll >= s->view->rows)
		s->scroll = s->view->rows ? s->view->rows - 1 : 0;
	for (size_t i = s->scroll; i < s->view->rows; i++) {
		av_top_line(&s->view->row[i], line, sizeof(line));
		put_line(y++, A_NORMAL, line);
	}
	return y;
}

static void draw(struct screen *s)
{
	int y = draw_head(s);

	y = s->help ? draw_help(y) : draw_processes(s, y);
	if (y < LINES) {
		move(y, 0);
		clrtobot();
	}
	refresh();
}

/* Show the next device; after the last one, all. */
static void next_device(struct av_top_view *view)
{
	unsigned int count, i = 0;
	struct av_device *const *list = av_devices(&count);

	if (view->only)
		while (i < count && list[i++] != view->only)
			;
	view->only = i < count ? list[i] : NULL;
}

/* Return: true if it is time for another look. */
static bool obey(struct screen *s, int key)
{
	struct av_top_view *view = s->view;

	for (int i = 0; i < AV_TOP_N; i++)
		if (key == av_top_column[i].key) {
			view->sort = (enum av_top_column)i;
			av_top_sort(view);
		}
	switch (key) {
	case 'R':
		view->reverse = !view->reverse;
		av_top_sort(view);
		break;
	case 'd':
		next_device(view);
		return true;
	case 'h':
	case '?':
		s->help = !s->help;
		break;
	case KEY_DOWN:
		s->scroll++;
		break;
	case KEY_UP:
		s->scroll -= s->scroll > 0;
		break;
	case 'q':
		stopped = 1;
		break;
	case KEY_RESIZE:
		clear();
		break;
	default:
		break;
	}
	return key == ' ';
}

/* Handle keys until the next look or the end. */
static void keys(struct screen *s, double until)
{
	double left;

	while (!stopped && (left = until - av_now_seconds()) > 0) {
		int key;

		timeout(left > 1 ? 1000
				 : (int)(left * 1000) + 1); /* bounds the delay of a signal that
							       arrives just before getch() */
		key = getch();
		if (key != ERR && obey(s, key))
			return;
		if (!stopped)
			draw(s);
	}
}

int av_top_screen(struct av_top_view *view, double seconds, uint64_t looks)
{
	struct sigaction on_signal = {.sa_handler = stop};
	struct screen s = {.view = view};
	bool ok = true;
	SCREEN *term =
		isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? newterm(NULL, stdout, stdin) : NULL;

	if (!term) {
		av_tool_complain("no usable terminal; -b writes plain text");
		return AV_EXIT_NO;
	}
	sigaction(SIGINT, &on_signal, NULL);
	sigaction(SIGTERM, &on_signal, NULL);
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	for (uint64_t n = 0; ok && !stopped && (!looks || n < looks); n++) {
		ok = av_top_look(view);
		if (ok) {
			draw(&s);
			keys(&s, view->moment + seconds);
		}
	}
	endwin();
	delscreen(term);
	if (!ok)
		av_tool_complain("out of memory");
	return ok ? AV_EXIT_OK : AV_EXIT_NO;
}
