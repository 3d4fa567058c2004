/* SPDX-License-Identifier: MIT */
/* The last thing that failed in some processes, for those who ran them. */
#ifndef AV_TOOL_EXPLAIN_LAST_H
#define AV_TOOL_EXPLAIN_LAST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "observe/explain.h"

/*
 * What "anyverbs explain" says of it. Requests that were only flushed are left out: they are no
 * causes. @is: is the process one of them? @since_ns: nothing older, CLOCK_REALTIME.
 * Return: false if there is nothing
 */
bool av_explain_last(bool (*is)(pid_t pid, const void *arg), const void *arg, uint64_t since_ns,
		     char text[AV_EXPLAIN_MAX]);

#endif
