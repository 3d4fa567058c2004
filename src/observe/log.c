/* SPDX-License-Identifier: MIT */
/*
 * The process is the program's: it may close every descriptor or change its directory. Our text
 * must not land in the wrong place or end the process. So each line opens the log file, whose name
 * is made absolute at the start; a descriptor kept open could be the program's socket by now. No
 * signal is delivered for our writes: a line is written whole or dropped.
 */
#include "observe/flight.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"

#define LINE_BYTES 1024 /* longer lines are cut, so that one write() carries a line whole */

static const char *const level_names[] = {
	[AV_LOG_OFF] = "off",
	[AV_LOG_WARN] = "warn",
	[AV_LOG_INFO] = "info",
	[AV_LOG_DEBUG] = "debug",
};

static pthread_once_t setting_once = PTHREAD_ONCE_INIT;
static enum av_log_level setting_level =
	AV_LOG_WARN;		    /* written under setting_once, constant afterwards */
static char setting_file[PATH_MAX]; /* likewise; "": standard error */

ssize_t av_write_quietly(int fd, const void *bytes, size_t n)
{
	static const struct timespec now = {0, 0};
	sigset_t ours, old, pending;
	ssize_t done;
	int err, sig;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	sigemptyset(&pending);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &ours, &old);
	do
		done = write(fd, bytes, n);
	while (done < 0 && errno == EINTR);
	err = errno;
	sig = done >= 0 ? 0 : err == EPIPE ? SIGPIPE : err == EFBIG ? SIGXFSZ : 0;
	/* Consume our own signal. One that was pending before belongs to the program. */
	if (sig && !sigismember(&pending, sig)) {
		sigemptyset(&ours);
		sigaddset(&ours, sig);
		while (sigtimedwait(&ours, NULL, &now) < 0 && errno == EINTR)
			;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = err;
	return done;
}

/* Keep one line on one line, whatever the arguments contain. UTF-8 passes. */
static void replace_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

AV_PRINTF(2, 0)
static void emit(enum av_log_level level, const char *fmt, va_list ap)
{
	char line[LINE_BYTES];
	int head, body, fd AV_CLOSED = -1;
	size_t len;

	head = snprintf(line, sizeof(line), "anyverbs[%d]: %s: ", (int)getpid(),
			level_names[level]);
	body = vsnprintf(line + head, sizeof(line) - (size_t)head, fmt, ap);
	if (body < 0)
		return;
	replace_controls(line);
	len = strlen(line);
	if (len == sizeof(line) - 1)
		memset(&line[--len - 3], '.', 3);
	line[len++] = '\n';

	/* Non-blocking: a FIFO without a reader must not stop the program. */
	if (setting_file[0])
		fd = open(setting_file,
			  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	(void)av_write_quietly(fd >= 0 ? fd : STDERR_FILENO, line, len);
}

/* For setting_init(), which must not call itself through av_log(). */
AV_PRINTF(1, 2)
static void warn_unchecked(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(AV_LOG_WARN, fmt, ap);
	va_end(ap);
}

/* Make @name absolute. Return: false: too long, or the current directory is unknown. */
static bool set_file(const char *name)
{
	char dir[PATH_MAX] = "";
	int len;

	if (name[0] != '/' && !getcwd(dir, sizeof(dir)))
		return false;
	len = snprintf(setting_file, sizeof(setting_file), "%s%s%s", dir, dir[0] ? "/" : "", name);
	if (len > 0 && (size_t)len < sizeof(setting_file))
		return true;
	setting_file[0] = '\0';
	return false;
}

static void setting_init(void)
{
	const char *text = secure_getenv("ANYVERBS_LOG");
	const char *colon;
	size_t len, i;

	if (!text || !*text)
		return;
	colon = strchrnul(text, ':');
	len = (size_t)(colon - text);
	for (i = 0; i < AV_ARRAY_SIZE(level_names); i++)
		if (strlen(level_names[i]) == len && !memcmp(level_names[i], text, len))
			break;
	if (i == AV_ARRAY_SIZE(level_names)) {
		warn_unchecked("ANYVERBS_LOG: '%.*s' is not off, warn, info or debug", (int)len,
			       text);
		return;
	}
	setting_level = (enum av_log_level)i;
	if (*colon && (!colon[1] || !set_file(colon + 1)))
		warn_unchecked("ANYVERBS_LOG: '%s' does not name a file; using standard error",
			       colon + 1);
}

/* Preserves the errno of the caller that happens to log first. */
static void setting_init_once(void)
{
	AV_ERRNO_KEPT;

	pthread_once(&setting_once, setting_init);
}

bool av_log_enabled(enum av_log_level level)
{
	setting_init_once();
	return level > AV_LOG_OFF && level <= setting_level;
}

void av_log(enum av_log_level level, const char *fmt, ...)
{
	AV_UNCANCELLED;
	AV_ERRNO_KEPT;
	va_list ap;

	if (!av_log_enabled(level))
		return;
	va_start(ap, fmt);
	emit(level, fmt, ap);
	va_end(ap);
}
