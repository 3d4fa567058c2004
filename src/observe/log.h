/* SPDX-License-Identifier: MIT */
/*
 * Log lines for people. Unasked, only warnings that the user must see, each once. ANYVERBS_LOG
 * selects "off", "warn" (default, to standard error), "info" or "debug", and ":FILE". Preserves
 * errno. Thread-safe; one write() per line.
 */
#ifndef AV_OBSERVE_LOG_H
#define AV_OBSERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"

enum av_log_level { AV_LOG_OFF, AV_LOG_WARN, AV_LOG_INFO, AV_LOG_DEBUG };

/* Are lines of this level written? Cheap. */
bool av_log_enabled(enum av_log_level level);

/* Write "anyverbs[PID]: LEVEL: text\n". No trailing newline in @fmt. */
void av_log(enum av_log_level level, const char *fmt, ...) AV_PRINTF(2, 3);

/* Write what the user asked for to standard error, by one write(), as it is. */
void av_log_raw(const char *text, size_t len);

/*
 * write() once, without the signals that would end the program: SIGPIPE (the reader went away),
 * SIGXFSZ (the file is at its size limit). Return: as write(), with errno
 */
ssize_t av_write_quietly(int fd, const void *bytes, size_t n);

/* av_log(AV_LOG_WARN, ...), at most once per call site and process. */
#define av_warn_once(...)                                                          \
	do {                                                                       \
		static _Atomic int av_warned_;                                     \
		if (!__atomic_exchange_n((int *)&av_warned_, 1, __ATOMIC_RELAXED)) \
			av_log(AV_LOG_WARN, __VA_ARGS__);                          \
	} while (0)

#endif
