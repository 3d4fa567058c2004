/* SPDX-License-Identifier: MIT */
/*
 * A timer interrupts a write that waits. O_NONBLOCK would be set for all who share the pipe or the
 * terminal, and poll() does not say how much may be written.
 */
#include "pair_output.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define MOMENT_MS 20

static struct {
	char *text;
	size_t length, room;
	int err;
} output;

/* --- adding ---------------------------------------------------------------------- */

static bool make_room(size_t bytes)
{
	size_t room = output.room ? output.room : 4096;
	char *text;

	while (room - output.length < bytes)
		room *= 2;
	if (room == output.room)
		return true;
	text = realloc(output.text, room);
	if (!text)
		return false;
	output.text = text;
	output.room = room;
	return true;
}

AV_PRINTF(3, 0)
static int format(char *to, size_t size, const char *fmt, va_list ap)
{
	va_list copy;
	int length;

	va_copy(copy, ap);
	length = vsnprintf(to, size, fmt, copy);
	va_end(copy);
	return length;
}

void av_pair_print(const char *fmt, ...)
{
	va_list ap;
	int length;

	va_start(ap, fmt);
	length = format(NULL, 0, fmt, ap);
	if (length >= 0 && make_room((size_t)length + 1)) {
		format(output.text + output.length, (size_t)length + 1, fmt, ap);
		output.length += (size_t)length;
	} else {
		output.err = ENOMEM;
	}
	va_end(ap);
}

void av_pair_put(const char *bytes, size_t count)
{
	if (!make_room(count)) {
		output.err = ENOMEM;
		return;
	}
	memcpy(output.text + output.length, bytes, count);
	output.length += count;
}

/* --- writing --------------------------------------------------------------------- */

static void on_alarm(int signal)
{
	(void)signal;
}

/* Again and again: the first signal may come before the write. */
void av_pair_hurry(bool on)
{
	struct sigaction interrupt = {.sa_handler = on_alarm}; /* and no SA_RESTART */
	struct timeval moment = {0, on ? MOMENT_MS * 1000 : 0};
	struct itimerval timer = {moment, moment};

	sigaction(SIGALRM, &interrupt, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void drop(size_t bytes)
{
	output.length -= bytes;
	memmove(output.text, output.text + bytes, output.length);
}

bool av_pair_flush(void)
{
	ssize_t n;

	if (!output.length)
		return true;
	av_pair_hurry(true);
	n = write(STDOUT_FILENO, output.text, output.length);
	if (n < 0 && errno == EAGAIN) {
		poll(NULL, 0, MOMENT_MS);
	} else if (n < 0 && errno != EINTR) {
		output.err = errno;
		n = (ssize_t)output.length;
	}
	av_pair_hurry(false);
	if (n > 0)
		drop((size_t)n);
	return !output.length;
}

int av_pair_unwritten(void)
{
	return output.err;
}
