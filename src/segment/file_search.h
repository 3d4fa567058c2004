/* SPDX-License-Identifier: MIT */
/* Finds files by their inode in a folder, such as /proc/PID/fd. */
#ifndef AV_SEGMENT_FILE_SEARCH_H
#define AV_SEGMENT_FILE_SEARCH_H

#include <stdbool.h>
#include <sys/stat.h>

/* @dir: descriptor of the folder. Return: false: that is all */
typedef bool av_file_visit(int dir, const char *name, const struct stat *st, void *arg);

/*
 * Visit the regular files that the entries of a folder lead to. Opens none of them: one may be a
 * device that notices. System calls alone, no heap, no cancellation point; changes errno.
 */
void av_file_search(const char *folder, av_file_visit *visit, void *arg);

#endif
