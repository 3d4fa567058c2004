/* SPDX-License-Identifier: MIT */
/* Finds what is installed with the tool: the library that programs preload, and commands. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * av_library_find() - the path of libanyverbs.so.1
 * @path: out; on failure, the place that was expected, for a message
 *
 * If ANYVERBS_LIBRARY is set, nothing else is tried. Otherwise looks where the library is installed
 * or built, relative to this tool. System folders are not searched: tool and library belong to one
 * build.
 */
bool av_library_find(char path[PATH_MAX]);

/*
 * The layout (registry/directory.h) of the library at @path: of another one than the tool's,
 * programs and tool do not see each other. Return: 0: it does not say
 */
uint32_t av_library_layout(const char *path);

/* The shared heap's, beside it. @path: in, what av_library_find() says; out, as there. */
bool av_library_find_heap(char path[PATH_MAX]);

/*
 * The folder of commands that the tool has under names of others. Return: false: there is none, or
 * PATH cannot have it
 */
bool av_library_find_commands(char path[PATH_MAX]);
