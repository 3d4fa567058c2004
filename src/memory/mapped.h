/* SPDX-License-Identifier: MIT */
/* What the kernel says is mapped in this process: /proc/self/maps, for when no cheaper question has
 * an answer. */
#ifndef AV_MEMORY_MAPPED_H
#define AV_MEMORY_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/**
 * av_mapped_check() - is [addr, addr + bytes) mapped without holes, readable, and if asked
 * writable? Return: 0, EFAULT (also if the list of mappings cannot be opened), or ENOMEM to read it
 */
AV_MUST_USE int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable);

/* The same over the text of a maps file, for tests. Return: 0 or EFAULT. */
AV_MUST_USE int av_mapped_check_text(const char *maps, uint64_t addr, uint64_t bytes,
				     bool writable);

/* The text of a file of this process in /proc, to be freed; NULL if it cannot be had. */
AV_MUST_USE char *av_mapped_text(const char *path);

#endif
