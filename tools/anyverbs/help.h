/* SPDX-License-Identifier: MIT */
/* What the tool says about itself. */
#pragma once

#include <stdio.h>

struct av_command;

/* The command of that name; NULL: there is none, and that has been said. */
const struct av_command *av_command_find(const char *name);

/* All commands, a line each. */
void av_help_overview(FILE *out);

/* Everything about one, to standard output. */
void av_help(const struct av_command *command);

void av_help_usage(FILE *out, const struct av_command *command);
