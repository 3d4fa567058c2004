/* SPDX-License-Identifier: MIT */
/* Where the library that programs preload is. */
#ifndef AV_TOOL_LIBRARY_H
#define AV_TOOL_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

/**
 * av_library_find() - the path of libanyverbs.so.1
 * @path: out; on failure the places that were tried, for a message
 *
 * ANYVERBS_LIBRARY if it is set, and nothing else then; otherwise the place where it is installed,
 * or built, relative to this tool. Not a search of the system's folders: tool and library belong to
 * one build.
 */
bool av_library_find(char path[PATH_MAX]);

#endif
