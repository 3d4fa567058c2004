/* SPDX-License-Identifier: MIT */
/*
 * Small text files of the user's that are read and replaced whole. Changes of one file are made one
 * at a time: its users hold the directory's change lock.
 */
#ifndef AV_REGISTRY_SMALL_FILE_H
#define AV_REGISTRY_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/**
 * av_small_file_read() - the text of a file, as far as it fits
 * @text: out, NUL terminated
 *
 * Return: false if there is no such file, it cannot be read, or it is not one that only this user
 * may write, which is warned of
 */
AV_MUST_USE bool av_small_file_read(const char *path, char *text, size_t size);

/* Replace a file, or make it. Return: 0 or -errno; nothing has changed then. */
AV_MUST_USE int av_small_file_write(const char *path, const char *text, size_t bytes);

#endif
