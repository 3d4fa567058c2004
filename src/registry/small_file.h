/* SPDX-License-Identifier: MIT */
/*
 * Small text files of the user that are read and replaced as a whole. The callers hold the
 * directory's change lock, so that a file is changed by one at a time.
 */
#ifndef AV_REGISTRY_SMALL_FILE_H
#define AV_REGISTRY_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/**
 * av_small_file_read() - read a file, as much of it as fits
 * @text: out, NUL terminated
 *
 * Return: false if there is no such file, it cannot be read, or (with a warning) others may write
 * it
 */
AV_MUST_USE bool av_small_file_read(const char *path, char *text, size_t size);

/* Make or replace a file. Return: 0 or -errno; then nothing has changed. */
AV_MUST_USE int av_small_file_write(const char *path, const char *text, size_t bytes);

#endif
