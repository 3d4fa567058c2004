/* SPDX-License-Identifier: MIT */
/* Memory for a file of ours, before it is needed. */
#ifndef AV_BASE_FILE_BACK_H
#define AV_BASE_FILE_BACK_H

#include <stdint.h>

#include "base/compiler.h"

/*
 * Back a part of the file with real pages: touching them cannot fail. Return: 0 or -errno; then a
 * part of it may be backed
 */
AV_MUST_USE int av_file_back(int fd, uint64_t offset, uint64_t bytes);

#endif
