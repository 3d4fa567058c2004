/* SPDX-License-Identifier: MIT */
/*
 * Log lines for people. The library prints nothing of its own accord but a warning that the user
 * must know of (a permission that is missing, a setting that cannot be understood), each of them
 * once. ANYVERBS_LOG chooses: "off", "warn" (default, to standard error), "info", "debug", each
 * optionally followed by ":FILE". errno is preserved. Thread-safe; one write() per line.
 */
#ifndef AV_OBSERVE_LOG_H
#define AV_OBSERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

enum av_log_level { AV_LOG_OFF, AV_LOG_WARN, AV_LOG_INFO, AV_LOG_DEBUG };

/* True if lines of this level are written; cheap. */
bool av_log_enabled(enum av_log_level level);

/* Write "anyverbs[PID]: LEVEL: text\n". No trailing newline in @fmt. */
void av_log(enum av_log_level level, const char *fmt, ...) AV_PRINTF(2, 3);

/* Write lines to standard error as they are, by one write(), whatever ANYVERBS_LOG says: what was
 * asked for.
 */
void av_log_raw(const char *text, size_t len);

/* The same, at most once per call site and process. */
#define av_warn_once(...)                                                          \
	do {                                                                       \
		static _Atomic int av_warned_;                                     \
		if (!__atomic_exchange_n((int *)&av_warned_, 1, __ATOMIC_RELAXED)) \
			av_log(AV_LOG_WARN, __VA_ARGS__);                          \
	} while (0)

#endif
