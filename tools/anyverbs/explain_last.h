/* SPDX-License-Identifier: MIT */
/* What the flight recorder has of process groups, for those who ran them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "observe/check.h"

/*
 * What "anyverbs explain" says of it. Requests that were only flushed are left out: they are no
 * causes. @leader: of the group. @since_ns: nothing older, CLOCK_REALTIME.
 * Return: false: there is nothing
 */
bool av_explain_last(pid_t leader, uint64_t since_ns, char text[AV_EXPLAIN_MAX]);

/* Write the freedoms that strict devices used in both groups to standard error: the first 16. */
void av_explain_freedoms(const pid_t leader[2], uint64_t since_ns);
