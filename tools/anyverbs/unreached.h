/* SPDX-License-Identifier: MIT */
/* Which programs a preloaded library does not reach, as their files tell. */
#pragma once

#include <limits.h>

/**
 * av_unreached_why() - why the library would not be loaded into a program
 * @name: the program, found as execvp(3) finds it; a script stands for its interpreter, and
 *        "/usr/bin/env NAME" in a script for NAME
 * @path: out, the file that it is about
 *
 * The loader of set-user-ID programs and of those with file capabilities takes no library by path;
 * a static program has no loader; one for another processor takes no library of ours.
 *
 * Return: the end of a sentence that begins with @path, or NULL: nothing speaks against it, or the
 * file cannot be found or read
 */
const char *av_unreached_why(const char *name, char path[PATH_MAX]);
