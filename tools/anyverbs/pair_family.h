/* SPDX-License-Identifier: MIT */
/*
 * The processes that the tool has started, those that these have started, and so on: whatever group
 * or session they are in, and whether their parents live or not.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * From now on, who loses its parent becomes the tool's child. Children that the tool has already,
 * of the shell that it was, do not count.
 */
void av_family_begin(void);

/**
 * av_family_any() - is there one of which this is true?
 * @root: the tool, or a process that it has started; processes below it are asked for
 * @is: called for each that lives, until it returns true
 */
bool av_family_any(pid_t root, bool (*is)(pid_t pid, void *arg), void *arg);

/*
 * Take what is left of orphans that have ended, as init does, up to a child that is one of @two:
 * somebody else waits for these.
 */
void av_family_reap(const pid_t two[2]);

/* Kill the whole family, and take what is left of the tool's children. */
void av_family_end(void);
