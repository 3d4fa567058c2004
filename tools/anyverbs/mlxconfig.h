/* SPDX-License-Identifier: MIT */
/* The tool under another name. */
#pragma once

#include <stdbool.h>

/* Was the tool called by that name? @called: argv[0] */
bool av_is_mlxconfig(const char *called);

/* Return: exit status */
int av_mlxconfig(int argc, char **argv);
