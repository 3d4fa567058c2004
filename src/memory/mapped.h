/* SPDX-License-Identifier: MIT */
/* What is mapped in this process, from /proc/self/maps: for when nothing cheaper answers. */
#ifndef AV_MEMORY_MAPPED_H
#define AV_MEMORY_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/**
 * av_mapped_check() - is [addr, addr + bytes) mapped without holes, readable, and with @writable
 * writable?
 * Return: 0, EFAULT (also if the list of mappings cannot be opened), or ENOMEM
 */
AV_MUST_USE int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable);

/* The same for the text of a maps file, for tests. Return: 0 or EFAULT. */
AV_MUST_USE int av_mapped_check_text(const char *maps, uint64_t addr, uint64_t bytes,
				     bool writable);

/* The text of one of this process's files in /proc, freed by the caller; NULL on failure. */
AV_MUST_USE char *av_mapped_text(const char *path);

#endif
